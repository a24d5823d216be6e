// Reads the input as a list of calls of the acl and aclnn interface: wrong sizes, wrong order, handles of other kinds,
// destroyed handles. Each call returns a code, and the process does not crash.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_embedding_dense_backward.h"
#include "aclnnop/aclnn_grouped_bias_add_grad.h"

namespace {

constexpr size_t kHostBytes = 4096;
constexpr size_t kSlots = 8;
constexpr size_t kMostDims = 10;

/// The bytes of the input, then zeros.
class Input {
public:
    Input(const uint8_t* data, size_t size) : data_(data), size_(size) {}

    bool IsEmpty() const { return next_ >= size_; }

    uint8_t Byte() { return IsEmpty() ? 0 : data_[next_++]; }

    /// A size, mostly small, sometimes at a limit.
    int64_t Number()
    {
        static const std::array<int64_t, 8> limits = {-1, INT64_MIN, INT64_MAX, 1LL << 62, 1LL << 40, 4096, 4097, 512};
        const uint8_t byte = Byte();
        return byte < 240 ? byte % 40 : limits[byte % limits.size()];
    }

    size_t Length() { return static_cast<size_t>(Number()); }

private:
    const uint8_t* data_;
    size_t size_;
    size_t next_ = 0;
};

/// All objects of the calls. Slots keep the value after it was destroyed.
struct State {
    std::array<void*, kSlots> memory{};
    std::array<aclrtStream, kSlots> streams{};
    std::array<aclrtEvent, kSlots> events{};
    std::array<aclTensor*, kSlots> tensors{};
    std::array<aclIntArray*, kSlots> arrays{};
    std::array<aclOpExecutor*, kSlots> executors{};
    uint64_t workspaceBytes = 0;
    std::vector<char> host = std::vector<char>(kHostBytes);
};

aclTensor* MakeTensor(Input& in, State& state)
{
    std::array<int64_t, kMostDims> dims{};
    std::array<int64_t, kMostDims> strides{};
    std::array<int64_t, kMostDims> storage{};
    const uint64_t rank = in.Byte() % (kMostDims + 1);
    const uint64_t storageRank = in.Byte() % 4 == 0 ? in.Byte() % (kMostDims + 1) : rank;
    for (size_t i = 0; i < kMostDims; ++i) {
        dims[i] = in.Number();
        storage[i] = storageRank == rank ? dims[i] : in.Number();
    }
    int64_t step = 1;
    const bool isOdd = in.Byte() % 4 == 0;
    for (size_t i = rank; i-- > 0;) {
        strides[i] = isOdd ? in.Number() : step;
        step = dims[i] > 0 && dims[i] < 64 && step < (1LL << 40) ? step * dims[i] : step;
    }
    const std::array<aclDataType, 6> dtypes = {ACL_FLOAT, ACL_FLOAT16, ACL_INT64, ACL_INT32, ACL_BF16, ACL_DOUBLE};
    const uint8_t dtype = in.Byte();
    void* const data = state.memory[in.Byte() % kSlots];
    return aclCreateTensor(
        in.Byte() == 255 ? nullptr : dims.data(), rank,
        dtype < 250 ? dtypes[dtype % dtypes.size()] : static_cast<aclDataType>(ACL_DT_UNDEFINED + 40 + dtype % 20),
        in.Byte() % 8 == 0 ? nullptr : strides.data(), in.Byte() % 4 == 0 ? in.Number() : 0, ACL_FORMAT_ND,
        in.Byte() == 255 ? nullptr : storage.data(), storageRank, data);
}

/// A handle of a slot, sometimes one of another kind.
template <typename Handle>
Handle Pick(Input& in, const State& state, const std::array<Handle, kSlots>& slots)
{
    const uint8_t byte = in.Byte();
    if (byte >= 250) {
        return reinterpret_cast<Handle>(byte == 255 ? state.memory[0] : static_cast<void*>(state.tensors[1]));
    }
    return slots[byte % kSlots];
}

using Call = std::function<void(Input&, State&)>;

const std::vector<Call>& Calls()
{
    static const std::vector<Call> calls = {
        [](Input& in, State& s) {
            static_cast<void>(aclrtMalloc(&s.memory[in.Byte() % kSlots], in.Length(), ACL_MEM_MALLOC_HUGE_FIRST));
        },
        [](Input& in, State& s) {
            static_cast<void>(aclrtMalloc(&s.memory[in.Byte() % kSlots], 2048, ACL_MEM_MALLOC_NORMAL_ONLY));
        },
        [](Input& in, State& s) { static_cast<void>(aclrtFree(Pick(in, s, s.memory))); },
        [](Input& in, State& s) {
            const size_t count = in.Length();
            static_cast<void>(aclrtMemcpy(Pick(in, s, s.memory), in.Length(), s.host.data(),
                                          count <= kHostBytes ? count : kHostBytes, ACL_MEMCPY_HOST_TO_DEVICE));
        },
        [](Input& in, State& s) {
            const size_t most = in.Length();
            static_cast<void>(aclrtMemcpy(s.host.data(), most <= kHostBytes ? most : kHostBytes, Pick(in, s, s.memory),
                                          in.Length(), ACL_MEMCPY_DEVICE_TO_HOST));
        },
        [](Input& in, State& s) {
            static_cast<void>(aclrtMemcpyAsync(Pick(in, s, s.memory), in.Length(), Pick(in, s, s.memory), in.Length(),
                                               static_cast<aclrtMemcpyKind>(ACL_MEMCPY_DEVICE_TO_DEVICE),
                                               Pick(in, s, s.streams)));
        },
        [](Input& in, State& s) {
            static_cast<void>(aclrtMemset(Pick(in, s, s.memory), in.Length(), in.Byte(), in.Length()));
        },
        [](Input& in, State& s) {
            static_cast<void>(
                aclrtMemsetAsync(Pick(in, s, s.memory), in.Length(), in.Byte(), in.Length(), Pick(in, s, s.streams)));
        },
        [](Input& in, State& s) { static_cast<void>(aclrtCreateStream(&s.streams[in.Byte() % kSlots])); },
        [](Input& in, State& s) { static_cast<void>(aclrtDestroyStream(Pick(in, s, s.streams))); },
        [](Input& in, State& s) { static_cast<void>(aclrtSynchronizeStreamWithTimeout(Pick(in, s, s.streams), 1000)); },
        [](Input& in, State& s) { static_cast<void>(aclrtCreateEvent(&s.events[in.Byte() % kSlots])); },
        [](Input& in, State& s) { static_cast<void>(aclrtDestroyEvent(Pick(in, s, s.events))); },
        [](Input& in, State& s) { static_cast<void>(aclrtRecordEvent(Pick(in, s, s.events), Pick(in, s, s.streams))); },
        [](Input& in, State& s) {
            static_cast<void>(aclrtStreamWaitEvent(Pick(in, s, s.streams), Pick(in, s, s.events)));
        },
        [](Input& in, State& s) {
            aclrtEventRecordedStatus status{};
            static_cast<void>(aclrtQueryEventStatus(Pick(in, s, s.events), &status));
        },
        [](Input& in, State& s) { s.tensors[in.Byte() % kSlots] = MakeTensor(in, s); },
        [](Input& in, State& s) { static_cast<void>(aclDestroyTensor(Pick(in, s, s.tensors))); },
        [](Input& in, State& s) {
            const std::array<int64_t, 4> values = {in.Number(), in.Number(), in.Number(), in.Number()};
            s.arrays[in.Byte() % kSlots] = aclCreateIntArray(values.data(), in.Byte() % (values.size() + 1));
        },
        [](Input& in, State& s) { static_cast<void>(aclDestroyIntArray(Pick(in, s, s.arrays))); },
        [](Input& in, State& s) {
            int64_t* dims = nullptr;
            uint64_t count = 0;
            if (aclGetViewShape(Pick(in, s, s.tensors), &dims, &count) == 0) {
                delete[] dims;
            }
        },
        [](Input& in, State& s) {
            aclOpExecutor* executor = nullptr;
            static_cast<void>(aclnnGroupedBiasAddGradGetWorkspaceSize(
                Pick(in, s, s.tensors), Pick(in, s, s.tensors), Pick(in, s, s.tensors), &s.workspaceBytes, &executor));
            s.executors[in.Byte() % kSlots] = executor;
        },
        [](Input& in, State& s) {
            aclOpExecutor* executor = nullptr;
            static_cast<void>(aclnnEmbeddingDenseBackwardGetWorkspaceSize(
                Pick(in, s, s.tensors), Pick(in, s, s.tensors), static_cast<uint64_t>(in.Number()),
                static_cast<uint64_t>(in.Number()), in.Byte() % 2 == 0, Pick(in, s, s.tensors), &s.workspaceBytes,
                &executor));
            s.executors[in.Byte() % kSlots] = executor;
        },
        [](Input& in, State& s) {
            static_cast<void>(aclnnGroupedBiasAddGrad(Pick(in, s, s.memory),
                                                      in.Byte() % 2 == 0 ? s.workspaceBytes : in.Length(),
                                                      s.executors[in.Byte() % kSlots], Pick(in, s, s.streams)));
        },
        [](Input& in, State& s) { static_cast<void>(aclSetAclOpExecutorRepeatable(s.executors[in.Byte() % kSlots])); },
        [](Input& in, State& s) { static_cast<void>(aclDestroyAclOpExecutor(s.executors[in.Byte() % kSlots])); },
        [](Input& in, State& s) {
            static_cast<void>(aclSetInputTensorAddr(s.executors[in.Byte() % kSlots], in.Length(),
                                                    Pick(in, s, s.tensors), Pick(in, s, s.memory)));
        },
        [](Input& in, State&) { static_cast<void>(aclrtSetDevice(static_cast<int32_t>(in.Number()))); },
        [](Input&, State&) { static_cast<void>(aclGetRecentErrMsg()); },
        [](Input&, State&) { static_cast<void>(aclInit(nullptr)); },
        [](Input&, State&) { static_cast<void>(aclFinalize()); },
        [](Input&, State&) { static_cast<void>(aclrtResetDevice(0)); },
    };
    return calls;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    if (aclInit(nullptr) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS) {
        std::abort();
    }
    Input in(data, size);
    State state;
    while (!in.IsEmpty()) {
        Calls()[in.Byte() % Calls().size()](in, state);
    }
    // Resets the process state for the next input; the device frees the remaining memory.
    static_cast<void>(aclrtSetDevice(0));
    static_cast<void>(aclrtResetDevice(0));
    static_cast<void>(aclFinalize());
    return 0;
}
