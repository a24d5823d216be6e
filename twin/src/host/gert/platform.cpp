#include "host/gert/platform.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>

#include "opforge_twin/arithmetic.h"
#include "host/acl/errors.h"
#include "kernel/exec/text.h"
#include "opdev/platform.h"
#include "tiling/platform/platform_ascendc.h"

namespace opforge::twin::host {

namespace {

std::mutex lock;
std::string chosen;

}  // namespace

const SocFigures& CurrentSoc()
{
    const std::lock_guard<std::mutex> guard(lock);
    const char* const environment = std::getenv("OPFORGE_TWIN_SOC");
    if (chosen.empty() && (environment == nullptr || environment[0] == '\0')) {
        return DefaultSoc();
    }
    const SocFigures* const soc = FindSoc(chosen.empty() ? environment : chosen);
    if (soc == nullptr) {
        kernel::RefuseVariable("OPFORGE_TWIN_SOC", environment, kernel::Text("a chip, as in ", DefaultSoc().name));
    }
    return *soc;
}

bool SetSoc(const std::string& name, std::string& problem)
{
    if (FindSoc(name) == nullptr) {
        problem = kernel::Text("option soc: got '", name, "', expected a chip, as in ", DefaultSoc().name);
        return false;
    }
    const std::lock_guard<std::mutex> guard(lock);
    chosen = name;
    return true;
}

fe::PlatFormInfos* PlatformOf(const SocFigures& soc)
{
    static std::map<std::string, fe::PlatFormInfos> platforms;
    const std::lock_guard<std::mutex> guard(lock);
    return &platforms.emplace(soc.name, fe::PlatFormInfos{soc}).first->second;
}

}  // namespace opforge::twin::host

namespace platform_ascendc {

using opforge::twin::SocFigures;
using opforge::twin::host::CurrentSoc;
using opforge::twin::host::PlatformOf;

namespace {

struct Versions {
    const char* directory;
    op::SocVersion host;
    SocVersion tiling;
};

#define OPFORGE_PRODUCT(directory, host, tiling) {directory, op::SocVersion::host, SocVersion::tiling},
constexpr Versions kVersions[] = {
#include "product_table.inc"
};
#undef OPFORGE_PRODUCT

const Versions& VersionsOf(const SocFigures& soc)
{
    return *std::find_if(std::begin(kVersions), std::end(kVersions),
                         [&soc](const Versions& versions) { return std::string(versions.directory) == soc.directory; });
}

}  // namespace

PlatformAscendC::PlatformAscendC(fe::PlatFormInfos* platformInfo)
    : platform_(platformInfo != nullptr ? platformInfo : PlatformOf(CurrentSoc()))
{
    if (platformInfo == nullptr) {
        opforge::twin::host::ReportMisuse("PlatformAscendC: platformInfo is null; use the context's GetPlatformInfo");
    }
}

uint32_t PlatformAscendC::GetCoreNum() const
{
    return static_cast<uint32_t>(platform_->figures.cubeCores);
}

uint32_t PlatformAscendC::GetCoreNumAic() const
{
    return static_cast<uint32_t>(platform_->figures.cubeCores);
}

uint32_t PlatformAscendC::GetCoreNumAiv() const
{
    return static_cast<uint32_t>(platform_->figures.vectorCores);
}

uint32_t PlatformAscendC::GetCoreNumVector() const
{
    return 0;  // only Ascend 310P has them; the twin does not emulate it
}

uint32_t PlatformAscendC::CalcTschBlockDim(uint32_t sliceNum, uint32_t aicCoreNum, uint32_t aivCoreNum) const
{
    if (aicCoreNum == 0 || aivCoreNum == 0 || aicCoreNum > aivCoreNum) {
        return sliceNum;
    }
    const uint32_t vectorCores = aivCoreNum / aicCoreNum;
    return opforge::twin::CeilDiv(sliceNum, vectorCores);
}

uint32_t PlatformAscendC::GetLibApiWorkSpaceSize() const
{
    constexpr uint32_t kMiB = 1U << 20;
    // Larger if cube and vector cores are separate.
    return platform_->figures.cubeCores != platform_->figures.vectorCores ? 16 * kMiB : 2 * kMiB;
}

uint32_t PlatformAscendC::GetResCubeGroupWorkSpaceSize() const
{
    return platform_->figures.HasGroups() ? 1U << 20 : ~0U;
}

uint32_t PlatformAscendC::GetResGroupBarrierWorkSpaceSize() const
{
    return GetResCubeGroupWorkSpaceSize();
}

void PlatformAscendC::GetCoreMemSize(const CoreMemType& memType, uint64_t& size) const
{
    const SocFigures& soc = platform_->figures;
    constexpr uint64_t kDeviceBytes = uint64_t{64} << 30;
    switch (memType) {
        case CoreMemType::L0_A:
            size = static_cast<uint64_t>(soc.l0aBytes);
            return;
        case CoreMemType::L0_B:
            size = static_cast<uint64_t>(soc.l0bBytes);
            return;
        case CoreMemType::L0_C:
            size = static_cast<uint64_t>(soc.l0cBytes);
            return;
        case CoreMemType::L1:
            size = static_cast<uint64_t>(soc.l1Bytes);
            return;
        case CoreMemType::L2:
            size = static_cast<uint64_t>(soc.l2Bytes);
            return;
        case CoreMemType::UB:
            size = static_cast<uint64_t>(soc.ubBytes);
            return;
        case CoreMemType::HBM:
            size = kDeviceBytes;
            return;
        default:
            size = 0;
    }
}

void PlatformAscendC::GetCoreMemBw(const CoreMemType& memType, uint64_t& bwSize) const
{
    // The rates in the platform files. They are the same for all SoCs.
    bwSize = memType == CoreMemType::L2 ? 110 : memType == CoreMemType::HBM ? 32 : 0;
}

SocVersion PlatformAscendC::GetSocVersion() const
{
    return VersionsOf(platform_->figures).tiling;
}

PlatformAscendC* PlatformAscendCManager::GetInstance()
{
    return GetInstance(CurrentSoc().name);
}

PlatformAscendC* PlatformAscendCManager::GetInstance(const char* customSocVersion)
{
    static std::mutex lock;
    static std::map<std::string, PlatformAscendC> instances;
    const SocFigures* soc = customSocVersion == nullptr ? nullptr : opforge::twin::FindSoc(customSocVersion);
    if (soc == nullptr) {
        return nullptr;
    }
    const std::lock_guard<std::mutex> guard(lock);
    return &instances.emplace(soc->name, PlatformAscendC(PlatformOf(*soc))).first->second;
}

}  // namespace platform_ascendc

namespace op {

using opforge::twin::host::CurrentSoc;

SocVersion PlatformInfo::GetSocVersion() const
{
    return platform_ascendc::VersionsOf(CurrentSoc()).host;
}

const std::string& PlatformInfo::GetSocLongVersion() const
{
    thread_local std::string name;
    name = CurrentSoc().name;
    return name;
}

uint32_t PlatformInfo::GetCubeCoreNum() const
{
    return static_cast<uint32_t>(CurrentSoc().cubeCores);
}

uint32_t PlatformInfo::GetVectorCoreNum() const
{
    return static_cast<uint32_t>(CurrentSoc().vectorCores);
}

fe::PlatFormInfos* PlatformInfo::GetPlatformInfos() const
{
    return opforge::twin::host::PlatformOf(CurrentSoc());
}

const PlatformInfo& GetCurrentPlatformInfo()
{
    static const PlatformInfo info(0);
    return info;
}

}  // namespace op
