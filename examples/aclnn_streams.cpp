// Two streams, strided tensors and wrong calls, as an application for CANN has them. A matrix of 1000 rows and 64
// columns is uploaded in the background; one stream sums the rows of each group over columns 8 to 37, the other, which
// waits for the upload by an event, over every second row of all columns. Neither view is copied by hand. At the end
// four calls that must be rejected. The same source builds with the CANN toolkit and, unchanged, with the CPU twin:
//   eval "g++ examples/aclnn_streams.cpp $(opforge flags) -o build/streams" && build/streams
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"
#include "calls.h"

namespace {
constexpr int kNullPointer = 161001;
constexpr int kInvalidParameter = 161002;
constexpr int64_t kRows = 1000;
constexpr int64_t kColumns = 64;

using Tensor = std::unique_ptr<aclTensor, aclnnStatus (*)(const aclTensor*)>;

Memory OnHost(size_t bytes)
{
    void* memory = nullptr;
    aclrtMallocHost(&memory, bytes);
    return {memory, aclrtFreeHost};
}

/// A matrix inside the storage of `memory`; strides and offset in elements.
Tensor View(const Memory& memory, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides,
            int64_t offset, const std::vector<int64_t>& storage, aclDataType dtype = ACL_FLOAT)
{
    return {aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), offset, ACL_FORMAT_ND, storage.data(),
                            storage.size(), memory.get()),
            aclDestroyTensor};
}

/// Sums of groups of rows of a view of a matrix on the device.
struct Sums {
    std::vector<int64_t> ends;
    int64_t width;
    int64_t rowStep;
    int64_t firstColumn;

    Memory deviceEnds{nullptr, aclrtFree};
    Memory deviceOut{nullptr, aclrtFree};
    Memory workspace{nullptr, aclrtFree};
    Memory out{nullptr, aclrtFreeHost};

    size_t OutBytes() const { return ends.size() * static_cast<size_t>(width) * sizeof(float); }

    /// Gives the call and the copy of its result to the stream; nothing here waits for it.
    int Enqueue(const Memory& matrix, aclrtStream stream)
    {
        const auto groups = static_cast<int64_t>(ends.size());
        const size_t endBytes = ends.size() * sizeof(int64_t);
        deviceEnds = OnDevice(endBytes);
        deviceOut = OnDevice(OutBytes());
        out = OnHost(OutBytes());
        RETURN_IF_FAILED(aclrtMemcpy(deviceEnds.get(), endBytes, ends.data(), endBytes, ACL_MEMCPY_HOST_TO_DEVICE));
        const Tensor gradY =
            View(matrix, {ends.back(), width}, {kColumns * rowStep, 1}, firstColumn, {kRows, kColumns});
        const Tensor groupIdx = View(deviceEnds, {groups}, {1}, 0, {groups}, ACL_INT64);
        const Tensor gradBias = View(deviceOut, {groups, width}, {width, 1}, 0, {groups, width});
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        RETURN_IF_FAILED(
            aclnnGroupedBiasAddGradGetWorkspaceSize(gradY.get(), groupIdx.get(), gradBias.get(), &bytes, &executor));
        if (bytes > 0) {
            workspace = OnDevice(bytes);
        }
        RETURN_IF_FAILED(aclnnGroupedBiasAddGrad(workspace.get(), bytes, executor, stream));
        RETURN_IF_FAILED(
            aclrtMemcpyAsync(out.get(), OutBytes(), deviceOut.get(), OutBytes(), ACL_MEMCPY_DEVICE_TO_HOST, stream));
        return 0;
    }

    /// Prints the sums; 1 when they are not those of the matrix.
    int Check(const char* name, const float* matrix) const
    {
        const auto* sums = static_cast<const float*>(out.get());
        int64_t begin = 0;
        for (size_t group = 0; group < ends.size(); ++group) {
            for (int64_t column = 0; column < width; ++column) {
                double expected = 0.0;
                for (int64_t row = begin; row < ends[group]; ++row) {
                    expected += static_cast<double>(matrix[row * rowStep * kColumns + firstColumn + column]);
                }
                const auto got = static_cast<double>(sums[static_cast<int64_t>(group) * width + column]);
                if (!(std::fabs(got - expected) <= 1e-4 * std::fabs(expected) + 1e-3)) {
                    std::fprintf(stderr, "%s: group %zu, column %lld: got %f, expected %f\n", name, group,
                                 static_cast<long long>(column), got, expected);
                    return 1;
                }
            }
            begin = ends[group];
        }
        std::printf("%s: %zu groups of %lld columns are right\n", name, ends.size(), static_cast<long long>(width));
        return 0;
    }
};

int SumOnTwoStreams(aclrtStream first, aclrtStream second)
{
    const size_t bytes = kRows * kColumns * sizeof(float);
    const Memory host = OnHost(bytes);
    auto* matrix = static_cast<float*>(host.get());
    for (int64_t index = 0; index < kRows * kColumns; ++index) {
        matrix[index] = static_cast<float>(index % 97) * 0.25F;
    }
    const Memory device = OnDevice(bytes);
    aclrtEvent uploaded = nullptr;
    RETURN_IF_FAILED(aclrtCreateEvent(&uploaded));
    RETURN_IF_FAILED(aclrtMemcpyAsync(device.get(), bytes, matrix, bytes, ACL_MEMCPY_HOST_TO_DEVICE, first));
    RETURN_IF_FAILED(aclrtRecordEvent(uploaded, first));
    RETURN_IF_FAILED(aclrtStreamWaitEvent(second, uploaded));
    Sums columns{{400, 600, kRows}, 30, 1, 8};
    Sums everySecondRow{{100, 500}, kColumns, 2, 0};
    RETURN_IF_FAILED(columns.Enqueue(device, first));
    RETURN_IF_FAILED(everySecondRow.Enqueue(device, second));
    RETURN_IF_FAILED(aclrtSynchronizeStream(first));
    RETURN_IF_FAILED(aclrtSynchronizeStream(second));
    RETURN_IF_FAILED(aclrtDestroyEvent(uploaded));
    return columns.Check("columns 8 to 37", matrix) + everySecondRow.Check("every second row", matrix);
}

/// A call that must be rejected; `status` 0 means any error.
int Refused(const char* call, int got, int status)
{
    std::printf("%s: refused with %d: %s\n", call, got, aclGetRecentErrMsg());
    return got == ACL_SUCCESS || (status != 0 && got != status) ? 1 : 0;
}

int MakeMistakes()
{
    const size_t bytes = 8 * 16 * sizeof(float);
    const Memory memory = OnDevice(bytes);
    const Tensor matrix = View(memory, {8, 16}, {16, 1}, 0, {8, 16});
    const Tensor ends = View(memory, {2}, {1}, 0, {2}, ACL_INT64);
    const Tensor sums = View(memory, {2, 16}, {16, 1}, 0, {2, 16});
    const Tensor narrow = View(memory, {2, 15}, {15, 1}, 0, {2, 15});
    const Tensor integers = View(memory, {2, 16}, {16, 1}, 0, {2, 16}, ACL_INT32);
    const std::vector<float> host(2 * 8 * 16, 1.0F);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    int wrong = 0;
    wrong +=
        Refused("no gradY", aclnnGroupedBiasAddGradGetWorkspaceSize(nullptr, ends.get(), sums.get(), &size, &executor),
                kNullPointer);
    wrong +=
        Refused("an output of another dtype",
                aclnnGroupedBiasAddGradGetWorkspaceSize(matrix.get(), ends.get(), integers.get(), &size, &executor),
                kInvalidParameter);
    wrong += Refused("an output of another shape",
                     aclnnGroupedBiasAddGradGetWorkspaceSize(matrix.get(), ends.get(), narrow.get(), &size, &executor),
                     kInvalidParameter);
    wrong += Refused("a copy of twice the size",
                     aclrtMemcpy(memory.get(), bytes, host.data(), 2 * bytes, ACL_MEMCPY_HOST_TO_DEVICE), 0);
    return wrong;
}

int Run()
{
    aclrtStream first = nullptr;
    aclrtStream second = nullptr;
    RETURN_IF_FAILED(aclrtCreateStream(&first));
    RETURN_IF_FAILED(aclrtCreateStream(&second));
    const int status = SumOnTwoStreams(first, second) + MakeMistakes();
    RETURN_IF_FAILED(aclrtDestroyStream(first));
    RETURN_IF_FAILED(aclrtDestroyStream(second));
    return status == 0 ? 0 : 1;
}
}  // namespace

int main()
{
    RETURN_IF_FAILED(aclInit(nullptr));
    RETURN_IF_FAILED(aclrtSetDevice(0));
    const int status = Run();
    RETURN_IF_FAILED(aclrtResetDevice(0));
    RETURN_IF_FAILED(aclFinalize());
    return status;
}
