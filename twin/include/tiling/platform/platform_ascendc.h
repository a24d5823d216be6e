// Device information for tiling functions.
#ifndef TILING_PLATFORM_PLATFORM_ASCENDC_H
#define TILING_PLATFORM_PLATFORM_ASCENDC_H

#include <cstdint>

namespace fe {
class PlatFormInfos;
}  // namespace fe

namespace platform_ascendc {
enum class SocVersion {
    ASCEND910 = 0,
    ASCEND910B = 1,
    ASCEND310P = 2,
    ASCEND310B = 3,
    ASCEND950 = 4,
    ASCEND910_55 = 5,
    ASCEND910_95 = 4,
    AS31XM1 = 5,
    ASCEND031 = 6,
    ASCEND035 = 7,
    ASCEND310 = 8,
    ASCEND610 = 9,
    ASCEND610Lite = 10,
    ASCEND910_93 = 11,
    BS9SX1A = 12,
    BS9SX2A = 13,
    HI3796CV300CS = 14,
    HI3796CV300ES = 15,
    MC61AM21A = 16,
    MC62 = 17,
    SD3403 = 18,
    KIRINX90 = 19,
    KIRIN9030 = 20,
    MC32DM11A = 21,
    ASCEND350 = 22,
    RESERVED_VERSION = 99999,
};

enum class CoreMemType {
    L0_A = 0,
    L0_B = 1,
    L0_C = 2,
    L1 = 3,
    L2 = 4,
    UB = 5,
    HBM = 6,
    FB = 7,
    BT = 8,
    RESERVED = 9,
};

class PlatformAscendC {
public:
    explicit PlatformAscendC(fe::PlatFormInfos* platformInfo);

    /// Returns the number of AI cores: the cube cores if cube and vector cores are separate.
    uint32_t GetCoreNum() const;
    uint32_t GetCoreNumAic() const;
    uint32_t GetCoreNumAiv() const;
    /// Returns the number of vector cores outside the AI cores (Ascend 310P); 0 on other SoCs.
    uint32_t GetCoreNumVector() const;
    /// Returns the number of blocks for `sliceNum` slices if a block has one cube core and its vector cores.
    uint32_t CalcTschBlockDim(uint32_t sliceNum, uint32_t aicCoreNum, uint32_t aivCoreNum) const;
    uint32_t GetLibApiWorkSpaceSize() const;
    /// The bytes for messages to groups of cube cores, and for GroupBarrier: 1 MiB, or 2^32 - 1 without them.
    uint32_t GetResCubeGroupWorkSpaceSize() const;
    uint32_t GetResGroupBarrierWorkSpaceSize() const;
    /// Sets the bytes that a kernel can use; for the unified buffer, 256 less than its size.
    void GetCoreMemSize(const CoreMemType& memType, uint64_t& size) const;
    /// Sets the bandwidth in bytes per cycle and core.
    void GetCoreMemBw(const CoreMemType& memType, uint64_t& bwSize) const;
    SocVersion GetSocVersion() const;

private:
    fe::PlatFormInfos* platform_;
};

class PlatformAscendCManager {
public:
    static PlatformAscendC* GetInstance();
    /// Returns null for an unknown SoC.
    static PlatformAscendC* GetInstance(const char* customSocVersion);
};
}  // namespace platform_ascendc

#endif  // TILING_PLATFORM_PLATFORM_ASCENDC_H
