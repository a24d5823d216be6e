// The SoC that the twin plays.
#ifndef OPFORGE_TWIN_HOST_GERT_PLATFORM_H
#define OPFORGE_TWIN_HOST_GERT_PLATFORM_H

#include <string>

#include "kernel/exec/soc.h"

namespace fe {
/// Opaque for applications: the figures of one SoC.
class PlatFormInfos {
public:
    opforge::twin::SocFigures figures;
};
}  // namespace fe

namespace opforge::twin::host {

/// Of option "soc", else of OPFORGE_TWIN_SOC, else the default one.
const SocFigures& CurrentSoc();

/// False, with the known names in `problem`, for a SoC that is not known.
bool SetSoc(const std::string& name, std::string& problem);

fe::PlatFormInfos* PlatformOf(const SocFigures& soc);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GERT_PLATFORM_H
