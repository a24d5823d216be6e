#include "kernel/exec/soc.h"

namespace opforge::twin {

namespace {

#define OPFORGE_SOC(...) {__VA_ARGS__},
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
