// Calls aclnnGroupedBiasAddGrad as any application for CANN does: gradY (1000, 30), groupIdx (400, 600, 1000) -> (3,
// 30). The same source builds with the CANN toolkit and, unchanged, with the CPU twin:
//   eval "g++ examples/aclnn_grouped_bias_add_grad.cpp $(opforge flags) -o build/example" && build/example
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "calls.h"

namespace {
/// Device memory with a dense tensor over it; both are released together.
class DeviceTensor {
public:
    template <typename T>
    int Create(const std::vector<T>& values, const std::vector<int64_t>& shape, aclDataType dtype)
    {
        const size_t bytes = values.size() * sizeof(T);
        RETURN_IF_FAILED(aclrtMalloc(&memory_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        RETURN_IF_FAILED(aclrtMemcpy(memory_, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        std::vector<int64_t> strides(shape.size(), 1);
        for (size_t dim = shape.size() - 1; dim > 0; --dim) {
            strides[dim - 1] = strides[dim] * shape[dim];
        }
        tensor_ = aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), 0, ACL_FORMAT_ND, shape.data(),
                                  shape.size(), memory_);
        return tensor_ == nullptr ? 1 : 0;
    }

    template <typename T>
    int CopyTo(std::vector<T>& values) const
    {
        const size_t bytes = values.size() * sizeof(T);
        RETURN_IF_FAILED(aclrtMemcpy(values.data(), bytes, memory_, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        return 0;
    }

    aclTensor* Get() const { return tensor_; }

    ~DeviceTensor()
    {
        aclDestroyTensor(tensor_);
        aclrtFree(memory_);
    }

private:
    void* memory_ = nullptr;
    aclTensor* tensor_ = nullptr;
};

int SumGroups(aclrtStream stream)
{
    const std::vector<int64_t> ends = {400, 600, 1000};
    const int64_t rows = ends.back();
    const int64_t width = 30;
    const int64_t groups = static_cast<int64_t>(ends.size());
    std::vector<float> gradY(rows * width);
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < width; ++column) {
            gradY[row * width + column] = 0.001F * static_cast<float>(row) + static_cast<float>(column);
        }
    }
    std::vector<float> gradBias(groups * width, 0.0F);

    DeviceTensor gradYTensor;
    DeviceTensor endsTensor;
    DeviceTensor outTensor;
    RETURN_IF_FAILED(gradYTensor.Create(gradY, {rows, width}, ACL_FLOAT));
    RETURN_IF_FAILED(endsTensor.Create(ends, {groups}, ACL_INT64));
    RETURN_IF_FAILED(outTensor.Create(gradBias, {groups, width}, ACL_FLOAT));

    uint64_t workspaceSize = 0;
    aclOpExecutor* executor = nullptr;
    RETURN_IF_FAILED(aclnnGroupedBiasAddGradGetWorkspaceSize(gradYTensor.Get(), endsTensor.Get(), outTensor.Get(),
                                                             &workspaceSize, &executor));
    void* workspace = nullptr;
    if (workspaceSize > 0) {
        RETURN_IF_FAILED(aclrtMalloc(&workspace, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST));
    }
    const std::unique_ptr<void, aclError (*)(void*)> owner(workspace, aclrtFree);
    RETURN_IF_FAILED(aclnnGroupedBiasAddGrad(workspace, workspaceSize, executor, stream));
    RETURN_IF_FAILED(aclrtSynchronizeStream(stream));
    RETURN_IF_FAILED(outTensor.CopyTo(gradBias));

    int64_t start = 0;
    for (int64_t group = 0; group < groups; ++group) {
        std::printf("group %lld (rows %4lld to %4lld):", static_cast<long long>(group), static_cast<long long>(start),
                    static_cast<long long>(ends[group] - 1));
        for (int64_t column = 0; column < 4; ++column) {
            std::printf(" %10.3f", static_cast<double>(gradBias[group * width + column]));
        }
        std::printf(" ... %10.3f\n", static_cast<double>(gradBias[group * width + width - 1]));
        start = ends[group];
    }
    std::printf("grad_bias has shape (%lld, %lld)\n", static_cast<long long>(groups), static_cast<long long>(width));
    return 0;
}
}  // namespace

int main()
{
    RETURN_IF_FAILED(aclInit(nullptr));
    RETURN_IF_FAILED(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    RETURN_IF_FAILED(aclrtCreateStream(&stream));
    const int status = SumGroups(stream);
    RETURN_IF_FAILED(aclrtDestroyStream(stream));
    RETURN_IF_FAILED(aclrtResetDevice(0));
    RETURN_IF_FAILED(aclFinalize());
    return status;
}
