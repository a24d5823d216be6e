#include "kernel/exec/soc.h"

namespace opforge::twin {

namespace {

#define OPFORGE_SOC(name, directory, arch, aic, aiv, mhz, ub, l1, l0a, l0b, l0c, l2) \
    {name, directory, arch, aic, aiv, mhz, ub, l1, l0a, l0b, l0c, l2},
constexpr SocFigures kSocs[] = {
#include "soc_table.inc"
};
#undef OPFORGE_SOC

}  // namespace

const SocFigures& DefaultSoc()
{
    return kSocs[0];
}

const SocFigures* FindSoc(const std::string& name)
{
    for (const SocFigures& soc : kSocs) {
        if (name == soc.name) {
            return &soc;
        }
    }
    return nullptr;
}

}  // namespace opforge::twin
