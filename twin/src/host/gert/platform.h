// The SoC that the twin emulates.
#ifndef OPFORGE_TWIN_HOST_GERT_PLATFORM_H
#define OPFORGE_TWIN_HOST_GERT_PLATFORM_H

#include <string>

#include "kernel/exec/soc.h"

namespace fe {
/// Opaque for applications: the parameters of one SoC.
class PlatFormInfos {
public:
    opforge::twin::SocFigures figures;
};
}  // namespace fe

namespace opforge::twin::host {

/// Uses option "soc", then OPFORGE_TWIN_SOC, then the default SoC.
const SocFigures& CurrentSoc();

/// Returns false and lists the known names in `problem` if the SoC is unknown.
bool SetSoc(const std::string& name, std::string& problem);

fe::PlatFormInfos* PlatformOf(const SocFigures& soc);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GERT_PLATFORM_H
