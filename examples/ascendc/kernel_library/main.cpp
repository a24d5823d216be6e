// Launches the kernel `scale` of the library and checks its result.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclrtlaunch_scale.h"

struct ScaleTiling {
    uint32_t perBlock;
    float factor;
};

int main()
{
    constexpr uint32_t kBlocks = 2;
    constexpr uint32_t kCount = 2048;
    constexpr size_t kBytes = kCount * sizeof(float);
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream stream = nullptr;
    aclrtCreateStream(&stream);

    std::vector<float> x(kCount);
    std::vector<float> y(kCount);
    for (uint32_t i = 0; i < kCount; ++i) {
        x[i] = static_cast<float>(i);
    }
    const ScaleTiling tiling{kCount / kBlocks, 0.25F};
    void* xDevice = nullptr;
    void* yDevice = nullptr;
    void* tilingDevice = nullptr;
    aclrtMalloc(&xDevice, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc(&yDevice, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc(&tilingDevice, sizeof(tiling), ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(xDevice, kBytes, x.data(), kBytes, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemcpy(tilingDevice, sizeof(tiling), &tiling, sizeof(tiling), ACL_MEMCPY_HOST_TO_DEVICE);

    ACLRT_LAUNCH_KERNEL(scale)(kBlocks, stream, xDevice, yDevice, tilingDevice);
    aclrtSynchronizeStream(stream);
    aclrtMemcpy(y.data(), kBytes, yDevice, kBytes, ACL_MEMCPY_DEVICE_TO_HOST);

    int wrong = 0;
    for (uint32_t i = 0; i < kCount; ++i) {
        wrong += y[i] != x[i] * 0.25F ? 1 : 0;
    }
    std::printf("%d of %u products are wrong\n", wrong, kCount);
    aclrtFree(xDevice);
    aclrtFree(yDevice);
    aclrtFree(tilingDevice);
    aclrtDestroyStream(stream);
    aclrtResetDevice(0);
    aclFinalize();
    return wrong == 0 ? 0 : 3;
}
