// An application that misuses the API, one way per run. Each wrong call must return a status and a message, and the
// process must end normally. It prints a line for each wrong call that was not rejected.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "acl/acl.h"
#include "aclnn_scaled_add.h"

namespace {

std::atomic<int> wrong{0};

void Complain(const char* call, long status, const char* text)
{
    ++wrong;
    std::printf("%s: %ld '%s'\n", call, status, text);
}

void Refused(const char* call, long status)
{
    const std::string message = aclGetRecentErrMsg();
    if (status == 0 || message.empty()) {
        Complain(call, status, message.c_str());
    }
}

void Taken(const char* call, long status)
{
    if (status != 0) {
        Complain(call, status, aclGetRecentErrMsg());
    }
}

// For functions that create an object: null means rejected.
#define REFUSED(...) Refused(#__VA_ARGS__, static_cast<long>(__VA_ARGS__))
#define NOT_MADE(...) Refused(#__VA_ARGS__, (__VA_ARGS__) == nullptr ? 1 : 0)
#define TAKEN(...) Taken(#__VA_ARGS__, static_cast<long>(__VA_ARGS__))

constexpr int64_t kDims[] = {4, 8};
constexpr size_t kBytes = 4 * 8 * sizeof(float);

void* OnDevice(size_t bytes = kBytes)
{
    void* memory = nullptr;
    TAKEN(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    return memory;
}

aclrtStream NewStream()
{
    aclrtStream stream = nullptr;
    TAKEN(aclrtCreateStream(&stream));
    return stream;
}

aclTensor* NewTensor(void* memory)
{
    return aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, memory);
}

/// A planned call with new tensors.
struct Call {
    void* source = OnDevice();
    void* target = OnDevice();
    aclTensor* x = NewTensor(source);
    aclTensor* out = NewTensor(target);
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;

    Call() { TAKEN(Plan(x, nullptr, nullptr, out)); }
    int Plan(const aclTensor* from, const aclTensor* bias, const aclIntArray* limit, aclTensor* to)
    {
        return aclnnScaledAddGetWorkspaceSize(from, bias, limit, 2.0, "plain", to, &bytes, &executor);
    }
};

void Nulls()
{
    Call call;
    aclrtStream stream = NewStream();
    REFUSED(aclrtMalloc(nullptr, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    REFUSED(aclrtMallocHost(nullptr, 8));
    REFUSED(aclrtFree(nullptr));
    REFUSED(aclrtFreeHost(nullptr));
    REFUSED(aclrtMemcpy(nullptr, 8, call.source, 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemcpy(call.source, 8, nullptr, 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemcpyAsync(nullptr, 8, nullptr, 8, ACL_MEMCPY_DEFAULT, stream));
    REFUSED(aclrtMemcpy2d(nullptr, 8, nullptr, 8, 8, 1, ACL_MEMCPY_DEFAULT));
    REFUSED(aclrtMemset(nullptr, 8, 0, 8));
    REFUSED(aclrtMemsetAsync(nullptr, 8, 0, 8, stream));
    REFUSED(aclrtGetMemInfo(ACL_HBM_MEM, nullptr, nullptr));
    REFUSED(aclrtGetDevice(nullptr));
    REFUSED(aclrtGetDeviceCount(nullptr));
    REFUSED(aclrtGetRunMode(nullptr));
    REFUSED(aclrtGetVersion(nullptr, nullptr, nullptr));
    REFUSED(aclrtCreateContext(nullptr, 0));
    REFUSED(aclrtDestroyContext(nullptr));
    REFUSED(aclrtSetCurrentContext(nullptr));
    REFUSED(aclrtGetCurrentContext(nullptr));
    REFUSED(aclrtCreateStream(nullptr));
    REFUSED(aclrtCreateStreamWithConfig(nullptr, 0, 0));
    REFUSED(aclrtDestroyStream(nullptr));
    REFUSED(aclrtCreateEvent(nullptr));
    REFUSED(aclrtCreateEventWithFlag(nullptr, 0));
    REFUSED(aclrtDestroyEvent(nullptr));
    REFUSED(aclrtRecordEvent(nullptr, stream));
    REFUSED(aclrtStreamWaitEvent(stream, nullptr));
    REFUSED(aclrtLaunchHostFunc(stream, nullptr, nullptr));
    REFUSED(aclrtSynchronizeEvent(nullptr));
    REFUSED(aclrtQueryEventStatus(nullptr, nullptr));
    REFUSED(aclrtEventElapsedTime(nullptr, nullptr, nullptr));
    NOT_MADE(aclCreateTensor(nullptr, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 2, call.source));
    NOT_MADE(aclCreateTensorList(nullptr, 1));
    NOT_MADE(aclCreateIntArray(nullptr, 1));
    NOT_MADE(aclCreateFloatArray(nullptr, 1));
    NOT_MADE(aclCreateBoolArray(nullptr, 1));
    NOT_MADE(aclCreateScalar(nullptr, ACL_FLOAT));
    NOT_MADE(aclCreateScalarList(nullptr, 1));
    REFUSED(aclInitTensor(nullptr, kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, nullptr));
    REFUSED(aclGetViewShape(nullptr, nullptr, nullptr));
    REFUSED(aclGetViewShape(call.x, nullptr, nullptr));
    REFUSED(aclGetStorageShape(call.x, nullptr, nullptr));
    REFUSED(aclGetViewStrides(call.x, nullptr, nullptr));
    REFUSED(aclGetViewOffset(call.x, nullptr));
    REFUSED(aclGetFormat(call.x, nullptr));
    REFUSED(aclGetDataType(call.x, nullptr));
    REFUSED(aclGetIntArraySize(nullptr, nullptr));
    REFUSED(aclGetFloatArraySize(nullptr, nullptr));
    REFUSED(aclGetBoolArraySize(nullptr, nullptr));
    REFUSED(aclGetTensorListSize(nullptr, nullptr));
    REFUSED(aclGetScalarListSize(nullptr, nullptr));
    REFUSED(aclGetRawTensorAddr(nullptr, nullptr));
    REFUSED(aclSetRawTensorAddr(nullptr, nullptr));
    REFUSED(aclSetAclOpExecutorRepeatable(nullptr));
    REFUSED(aclSetInputTensorAddr(nullptr, 0, nullptr, nullptr));
    REFUSED(aclSetOutputTensorAddr(call.executor, 0, nullptr, nullptr));
    REFUSED(aclSetTensorAddr(call.executor, 99, call.x, nullptr));
    REFUSED(aclnnScaledAddGetWorkspaceSize(nullptr, nullptr, nullptr, 1, nullptr, nullptr, nullptr, nullptr));
    REFUSED(aclnnScaledAddGetWorkspaceSize(call.x, nullptr, nullptr, 1, nullptr, call.out, &call.bytes, nullptr));
    REFUSED(call.Plan(nullptr, nullptr, nullptr, call.out));
    REFUSED(call.Plan(call.x, nullptr, nullptr, nullptr));
    REFUSED(aclnnScaledAdd(nullptr, 0, nullptr, nullptr));
    aclTensor* const nowhere = NewTensor(nullptr);
    TAKEN(call.Plan(nowhere, nullptr, nullptr, call.out));
    REFUSED(aclnnScaledAdd(OnDevice(call.bytes), call.bytes, call.executor, stream));
    REFUSED(aclInit("/no/such/file"));
}

/// Destroys every object twice and passes it to every function after its destruction.
void Destroyed()
{
    Call call;
    int64_t numbers[] = {1, 2};
    float number = 1;
    bool truth = true;
    uint64_t size = 0;
    const aclTensor* members[] = {NewTensor(call.source), NewTensor(call.source)};
    aclTensorList* const list = aclCreateTensorList(members, 2);
    TAKEN(aclDestroyTensorList(list));
    REFUSED(aclDestroyTensorList(list));
    REFUSED(aclGetTensorListSize(list, &size));
    REFUSED(aclDestroyTensor(members[0]));
    NOT_MADE(aclCreateTensorList(members, 2));
    aclIntArray* const ints = aclCreateIntArray(numbers, 2);
    TAKEN(aclDestroyIntArray(ints));
    REFUSED(aclDestroyIntArray(ints));
    REFUSED(call.Plan(call.x, nullptr, ints, call.out));
    aclFloatArray* const floats = aclCreateFloatArray(&number, 1);
    TAKEN(aclDestroyFloatArray(floats));
    REFUSED(aclDestroyFloatArray(floats));
    aclBoolArray* const bools = aclCreateBoolArray(&truth, 1);
    TAKEN(aclDestroyBoolArray(bools));
    REFUSED(aclDestroyBoolArray(bools));
    aclScalar* const scalar = aclCreateScalar(&number, ACL_FLOAT);
    const aclScalar* scalars[] = {scalar};
    TAKEN(aclDestroyScalar(scalar));
    REFUSED(aclDestroyScalar(scalar));
    NOT_MADE(aclCreateScalarList(scalars, 1));

    TAKEN(call.Plan(call.x, nullptr, nullptr, call.out));
    TAKEN(aclDestroyTensor(call.x));
    aclrtStream stream = NewStream();
    REFUSED(aclnnScaledAdd(OnDevice(call.bytes), call.bytes, call.executor, stream));
    TAKEN(aclDestroyAclOpExecutor(call.executor));
    REFUSED(aclDestroyAclOpExecutor(call.executor));
    REFUSED(aclnnScaledAdd(OnDevice(call.bytes), call.bytes, call.executor, stream));
    REFUSED(call.Plan(call.x, nullptr, nullptr, call.out));
    REFUSED(call.Plan(call.out, call.x, nullptr, call.out));
    REFUSED(call.Plan(call.out, nullptr, nullptr, call.x));
    REFUSED(aclGetViewOffset(call.x, numbers));
    REFUSED(aclSetRawTensorAddr(call.x, call.source));

    Call other;
    TAKEN(aclrtDestroyStream(stream));
    REFUSED(aclrtDestroyStream(stream));
    REFUSED(aclrtSynchronizeStream(stream));
    REFUSED(aclrtMemsetAsync(call.source, 8, 0, 8, stream));
    REFUSED(aclnnScaledAdd(OnDevice(other.bytes), other.bytes, other.executor, stream));
    aclrtEvent event = nullptr;
    TAKEN(aclrtCreateEvent(&event));
    TAKEN(aclrtDestroyEvent(event));
    REFUSED(aclrtDestroyEvent(event));
    REFUSED(aclrtSynchronizeEvent(event));
    aclrtContext context = nullptr;
    aclrtContext own = nullptr;
    TAKEN(aclrtGetCurrentContext(&own));
    TAKEN(aclrtCreateContext(&context, 0));
    TAKEN(aclrtDestroyContext(context));
    REFUSED(aclrtDestroyContext(context));
    REFUSED(aclrtMalloc(&call.source, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    TAKEN(aclrtSetCurrentContext(own));
    TAKEN(aclrtFree(call.target));
    REFUSED(aclrtFree(call.target));
    REFUSED(aclrtMemset(call.target, 8, 0, 8));
    TAKEN(aclrtResetDevice(0));
    REFUSED(aclrtResetDevice(0));
    REFUSED(aclrtSynchronizeDevice());
    REFUSED(aclnnScaledAdd(nullptr, 0, other.executor, nullptr));
}

/// Passes pointers to unrelated memory.
void Foreign()
{
    Call call;
    aclrtStream stream = NewStream();
    static char bytes[4096];
    std::memset(bytes, 0x41, sizeof(bytes));
    auto* const foreign = reinterpret_cast<aclTensor*>(bytes);
    auto* const low = reinterpret_cast<aclTensor*>(0x10);
    uint64_t size = 0;
    for (aclTensor* const tensor :
         {foreign, low, reinterpret_cast<aclTensor*>(call.source), reinterpret_cast<aclTensor*>(stream),
          reinterpret_cast<aclTensor*>(call.executor)}) {
        REFUSED(aclDestroyTensor(tensor));
        REFUSED(call.Plan(tensor, nullptr, nullptr, call.out));
        REFUSED(call.Plan(call.x, tensor, nullptr, call.out));
        REFUSED(call.Plan(call.x, nullptr, reinterpret_cast<aclIntArray*>(tensor), call.out));
        REFUSED(call.Plan(call.x, nullptr, nullptr, tensor));
        REFUSED(aclGetIntArraySize(reinterpret_cast<aclIntArray*>(tensor), &size));
        REFUSED(aclrtSynchronizeEvent(tensor));
        REFUSED(aclrtSetCurrentContext(tensor));
    }
    REFUSED(aclrtSynchronizeStream(call.x));
    REFUSED(aclrtDestroyStream(call.executor));
    REFUSED(aclDestroyAclOpExecutor(reinterpret_cast<aclOpExecutor*>(call.x)));
    REFUSED(aclDestroyIntArray(reinterpret_cast<aclIntArray*>(call.x)));
    REFUSED(aclrtMemcpy(bytes, 64, bytes + 64, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(call.source, 64, call.target, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtFree(bytes));
    REFUSED(aclrtFree(static_cast<char*>(call.source) + 8));
    REFUSED(aclrtFreeHost(call.source));
    auto* const device = static_cast<int64_t*>(call.source);
    NOT_MADE(aclCreateTensor(device, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, device, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, device, 2, call.source));
    NOT_MADE(aclCreateIntArray(device, 2));
    NOT_MADE(aclCreateScalar(device, ACL_FLOAT));
    NOT_MADE(aclCreateTensorList(reinterpret_cast<aclTensor* const*>(device), 1));

    TAKEN(aclSetRawTensorAddr(call.x, bytes));
    TAKEN(call.Plan(call.x, nullptr, nullptr, call.out));
    TAKEN(aclnnScaledAdd(OnDevice(call.bytes), call.bytes, call.executor, stream));
    REFUSED(aclrtSynchronizeStream(stream));
    REFUSED(aclrtDestroyStream(bytes));
}

void Sizes()
{
    Call call;
    aclrtStream stream = NewStream();
    char bytes[256] = {};
    constexpr size_t kHuge = ~size_t{0};
    REFUSED(aclrtMalloc(&call.source, 0, ACL_MEM_MALLOC_HUGE_FIRST));
    void* none = nullptr;
    REFUSED(aclrtMalloc(&none, kHuge, ACL_MEM_MALLOC_HUGE_FIRST));
    REFUSED(aclrtMallocHost(&none, kHuge));
    REFUSED(aclrtMemcpy(call.source, kBytes, bytes, kBytes + 1, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(call.source, kBytes + 1, bytes, kBytes + 1, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy(call.source, kHuge, call.target, kHuge - 8, ACL_MEMCPY_DEVICE_TO_DEVICE));
    REFUSED(aclrtMemcpy2d(call.source, kHuge, bytes, kHuge, 8, 8, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemcpy2d(call.source, 4, bytes, 4, 8, 2, ACL_MEMCPY_HOST_TO_DEVICE));
    REFUSED(aclrtMemset(call.source, kBytes, 0, kBytes + 1));
    REFUSED(aclrtMemset(call.source, kHuge, 0, kHuge));
    TAKEN(aclrtMemcpyAsync(call.source, kHuge, bytes, kHuge, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    REFUSED(aclrtSynchronizeStream(stream));
    for (const std::vector<int64_t>& dims :
         {std::vector<int64_t>{-1, 8}, std::vector<int64_t>{INT64_MAX, 8}, std::vector<int64_t>{INT64_MIN, 8}}) {
        NOT_MADE(aclCreateTensor(dims.data(), 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims.data(), 2, call.source));
        NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, dims.data(), 0, ACL_FORMAT_ND, kDims, 2, call.source));
    }
    NOT_MADE(aclCreateTensor(kDims, 26, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, ~uint64_t{0}, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, INT64_MAX, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_FLOAT, nullptr, -1, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, static_cast<aclDataType>(99), nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateTensor(kDims, 2, ACL_STRING, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.source));
    NOT_MADE(aclCreateIntArray(kDims, ~uint64_t{0}));
    NOT_MADE(aclCreateScalar(bytes, static_cast<aclDataType>(-7)));

    // An output whose rows share the same memory.
    const int64_t same[] = {0, 1};
    aclTensor* const folded = aclCreateTensor(kDims, 2, ACL_FLOAT, same, 0, ACL_FORMAT_ND, kDims, 2, call.target);
    REFUSED(call.Plan(call.x, nullptr, nullptr, folded));
    const int64_t other[] = {8, 4};
    aclTensor* const turned = aclCreateTensor(other, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, kDims, 2, call.target);
    REFUSED(call.Plan(call.x, nullptr, nullptr, turned));
}

void Workspaces()
{
    Call call;
    aclrtStream stream = NewStream();
    REFUSED(aclnnScaledAdd(nullptr, call.bytes, call.executor, stream));
    REFUSED(aclnnScaledAdd(OnDevice(call.bytes), call.bytes - 1, call.executor, stream));
    REFUSED(aclnnScaledAdd(OnDevice(call.bytes - 1), call.bytes, call.executor, stream));
    REFUSED(aclnnScaledAdd(&call, call.bytes, call.executor, stream));
    void* const freed = OnDevice(call.bytes);
    TAKEN(aclrtFree(freed));
    REFUSED(aclnnScaledAdd(freed, call.bytes, call.executor, stream));
    void* const workspace = OnDevice(call.bytes);
    TAKEN(aclnnScaledAdd(workspace, call.bytes, call.executor, stream));
    REFUSED(aclnnScaledAdd(workspace, call.bytes, call.executor, stream));
    TAKEN(aclrtSynchronizeStream(stream));
    TAKEN(call.Plan(call.x, nullptr, nullptr, call.out));
    TAKEN(aclrtFree(call.source));
    TAKEN(aclnnScaledAdd(workspace, call.bytes, call.executor, stream));
    REFUSED(aclrtSynchronizeStream(stream));
}

/// Two threads use every function. Their results may differ between runs, but the process must not crash.
void Threads()
{
    Call shared;
    TAKEN(aclSetAclOpExecutorRepeatable(shared.executor));
    void* const workspace = OnDevice(shared.bytes);
    aclrtStream stream = NewStream();
    std::atomic<aclTensor*> tensor{NewTensor(shared.source)};
    std::atomic<aclrtStream> passing{NewStream()};
    std::atomic<int> single{0};
    std::atomic<aclOpExecutor*> once{nullptr};
    const auto work = [&](int number) {
        TAKEN(aclrtSetDevice(0));
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        for (int i = 0; i < 40; ++i) {
            TAKEN(aclnnScaledAdd(workspace, shared.bytes, shared.executor, stream));
            aclTensor* const mine = NewTensor(shared.source);
            if (aclnnScaledAddGetWorkspaceSize(tensor, nullptr, nullptr, 1, nullptr, shared.out, &bytes, &executor) ==
                0) {
                aclnnScaledAdd(workspace, bytes, executor, stream);
                aclDestroyAclOpExecutor(executor);
            }
            aclDestroyTensor(tensor.exchange(mine));
            aclrtStream fresh = nullptr;
            aclrtCreateStream(&fresh);
            aclrtMemsetAsync(OnDevice(), kBytes, number, kBytes, passing);
            aclrtSynchronizeStream(passing);
            aclrtDestroyStream(passing.exchange(fresh));
        }
    };
    std::vector<std::thread> threads;
    for (int number = 0; number < 2; ++number) {
        threads.emplace_back(work, number);
    }
    for (std::thread& thread : threads) {
        thread.join();
    }
    TAKEN(aclrtSynchronizeStream(stream));
    // Two threads use one executor once: only one of them succeeds.
    for (int i = 0; i < 20; ++i) {
        TAKEN(shared.Plan(shared.x, nullptr, nullptr, shared.out));
        single = 0;
        threads.clear();
        for (int number = 0; number < 2; ++number) {
            threads.emplace_back([&] {
                aclrtSetDevice(0);
                single += aclnnScaledAdd(workspace, shared.bytes, shared.executor, stream) == 0 ? 1 : 0;
            });
        }
        for (std::thread& thread : threads) {
            thread.join();
        }
        if (single != 1) {
            Complain("threads with one executor", single, "");
        }
    }
    TAKEN(aclrtSynchronizeStream(stream));
    // The device is reset while a thread uses it.
    std::thread other([&] {
        aclrtSetDevice(0);
        for (int i = 0; i < 200; ++i) {
            void* memory = nullptr;
            aclrtMalloc(&memory, kBytes, ACL_MEM_MALLOC_HUGE_FIRST);
            aclrtMemsetAsync(memory, kBytes, 0, kBytes, nullptr);
            aclrtSynchronizeStream(nullptr);
        }
    });
    aclrtResetDevice(0);
    other.join();
}

/// The host memory of an asynchronous copy is freed immediately.
void Pageable()
{
    aclrtStream stream = NewStream();
    constexpr size_t kMany = size_t{32} << 20;
    void* const memory = OnDevice(kMany);
    for (int i = 0; i < 2; ++i) {
        void* const host = std::malloc(kMany);
        std::memset(host, 7, kMany);
        TAKEN(aclrtMemcpyAsync(memory, kMany, host, kMany, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        std::free(host);
        void* const back = std::malloc(kMany);
        TAKEN(aclrtMemcpyAsync(back, kMany, memory, kMany, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        if (static_cast<char*>(back)[kMany - 1] != 7) {
            Complain("copies through pageable memory", static_cast<char*>(back)[kMany - 1], "");
        }
        std::free(back);
    }
    TAKEN(aclrtSynchronizeStream(stream));
}

/// Returns from main while streams execute tasks.
void InFlight()
{
    for (aclrtStream stream : {NewStream(), aclrtStream{nullptr}}) {
        Call call;
        void* const workspace = OnDevice(call.bytes);
        for (int i = 0; i < 10; ++i) {
            TAKEN(call.Plan(call.x, nullptr, nullptr, call.out));
            TAKEN(aclnnScaledAdd(workspace, call.bytes, call.executor, stream));
        }
    }
}

}  // namespace

int main(int count, char** arguments)
{
    const std::map<std::string, void (*)()> ways = {
        {"nulls", Nulls},           {"destroyed", Destroyed}, {"foreign", Foreign},   {"sizes", Sizes},
        {"workspaces", Workspaces}, {"threads", Threads},     {"pageable", Pageable}, {"in flight", InFlight},
    };
    const auto found = ways.find(count == 2 ? arguments[1] : "");
    if (found == ways.end()) {
        for (const auto& way : ways) {
            std::printf("%s\n", way.first.c_str());
        }
        return 2;
    }
    void* early = nullptr;
    REFUSED(aclrtSetDevice(0));
    REFUSED(aclrtMalloc(&early, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    REFUSED(aclFinalize());
    TAKEN(aclInit(nullptr));
    REFUSED(aclInit(nullptr));
    REFUSED(aclrtMalloc(&early, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    REFUSED(aclrtSetDevice(-1));
    TAKEN(aclrtSetDevice(0));
    found->second();
    return wrong == 0 ? 0 : 1;
}
