// The device that executes aclnn code.
#ifndef OPDEV_PLATFORM_H
#define OPDEV_PLATFORM_H

#include <cstdint>
#include <string>

namespace fe {
class PlatFormInfos;
}  // namespace fe

namespace op {
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B = 1,
    ASCEND910_93 = 2,
    ASCEND910_95 = 3,
    ASCEND950 = 3,
    ASCEND910E = 4,
    ASCEND310 = 5,
    ASCEND310P = 6,
    ASCEND310B = 7,
    ASCEND310C = 8,
    ASCEND610LITE = 9,
    KIRINX90 = 10,
    KIRIN9030 = 11,
    ASCEND350 = 12,
    RESERVED_VERSION = 99999,
};

class PlatformInfo {
public:
    explicit PlatformInfo(int32_t deviceId) : deviceId_(deviceId) {}

    SocVersion GetSocVersion() const;
    const std::string& GetSocLongVersion() const;
    int32_t GetDeviceId() const { return deviceId_; }
    /// Returns the bytes of a data block of the vector unit.
    int64_t GetBlockSize() const { return 32; }
    uint32_t GetCubeCoreNum() const;
    uint32_t GetVectorCoreNum() const;
    bool Valid() const { return true; }
    fe::PlatFormInfos* GetPlatformInfos() const;

private:
    int32_t deviceId_;
};

const PlatformInfo& GetCurrentPlatformInfo();
}  // namespace op

#endif  // OPDEV_PLATFORM_H
