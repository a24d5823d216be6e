// A device "npu" of PyTorch whose memory and streams are those of the CPU twin.
//
// As with torch_npu, copies between device tensors wait in a host queue, and reading the current stream empties it.
// Operations without a kernel run on the CPU.
#include <deque>
#include <functional>
#include <mutex>

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

extern "C" {
int aclrtSetDevice(int32_t device);
int aclrtMalloc(void** memory, size_t bytes, int policy);
int aclrtFree(void* memory);
int aclrtMemcpy(void* to, size_t most, const void* from, size_t bytes, int kind);
int aclrtMemcpyAsync(void* to, size_t most, const void* from, size_t bytes, int kind, void* stream);
int aclrtCreateStream(void** stream);
int aclrtSynchronizeStream(void* stream);
int aclrtSynchronizeDevice();
const char* aclGetRecentErrMsg();
}

namespace {

enum Copy : int { kToDevice = 1, kToHost = 2, kOnDevice = 3 };
const c10::Device kDevice(c10::DeviceType::PrivateUse1, 0);

void Check(int status)
{
    TORCH_CHECK(status == 0, "the twin failed with ", status, ": ", aclGetRecentErrMsg());
}

void* NewStream()
{
    void* stream = nullptr;
    Check(aclrtSetDevice(0));
    Check(aclrtCreateStream(&stream));
    return stream;
}

void* DefaultStream()
{
    static void* const stream = NewStream();
    return stream;
}

thread_local void* g_stream = nullptr;

void*& Current()
{
    g_stream = g_stream == nullptr ? DefaultStream() : g_stream;
    return g_stream;
}

class Queue {
public:
    void Add(std::function<void()> task)
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        tasks_.push_back(std::move(task));
    }

    void Drain()
    {
        std::deque<std::function<void()>> tasks;
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            tasks.swap(tasks_);
        }
        for (const auto& task : tasks) {
            task();
        }
    }

private:
    std::mutex mutex_;
    std::deque<std::function<void()>> tasks_;
};

Queue g_queue;

void Finish()
{
    g_queue.Drain();
    Check(aclrtSynchronizeDevice());
}

void Free(void* memory)
{
    aclrtSetDevice(0);
    aclrtSynchronizeDevice();  // a launch may still use the memory
    aclrtFree(memory);
}

struct Allocator final : c10::Allocator {
    c10::DataPtr allocate(size_t bytes) override
    {
        void* memory = nullptr;
        if (bytes > 0) {
            Check(aclrtMalloc(&memory, bytes, 0));
        }
        return {memory, memory, memory == nullptr ? [](void*) {} : &Free, kDevice};
    }
    void copy_data(void* to, const void* from, size_t bytes) const override
    {
        Finish();
        Check(aclrtMemcpy(to, bytes, from, bytes, kOnDevice));
    }
};

Allocator g_allocator;

struct Guard final : c10::impl::DeviceGuardImplInterface {
    static constexpr c10::DeviceType static_type = c10::DeviceType::PrivateUse1;
    c10::DeviceType type() const override { return static_type; }
    c10::Device exchangeDevice(c10::Device device) const override
    {
        setDevice(device);
        return kDevice;
    }
    c10::Device getDevice() const override { return kDevice; }
    void setDevice(c10::Device) const override { Check(aclrtSetDevice(0)); }
    void uncheckedSetDevice(c10::Device) const noexcept override { aclrtSetDevice(0); }
    c10::Stream getStream(c10::Device) const noexcept override { return AsStream(Current()); }
    c10::Stream getDefaultStream(c10::Device) const override { return AsStream(DefaultStream()); }
    c10::Stream exchangeStream(c10::Stream stream) const noexcept override
    {
        return AsStream(std::exchange(Current(), reinterpret_cast<void*>(stream.id())));
    }
    void record(void**, const c10::Stream&, c10::DeviceIndex, c10::EventFlag) const override { Finish(); }
    void block(void*, const c10::Stream&) const override {}
    bool queryEvent(void*) const override { return true; }
    c10::DeviceIndex deviceCount() const noexcept override { return 1; }

private:
    static c10::Stream AsStream(void* stream)
    {
        return c10::Stream(c10::Stream::UNSAFE, kDevice, reinterpret_cast<c10::StreamId>(stream));
    }
};

struct Hooks final : at::PrivateUse1HooksInterface {
    bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
    bool isBuilt() const { return true; }
    bool isAvailable() const { return true; }
};

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor Empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format)
{
    return at::detail::empty_generic(size, &g_allocator, kKeys, c10::dtype_or_default(dtype), format);
}

at::Tensor EmptyStrided(at::IntArrayRef size, at::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                        std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>)
{
    return at::detail::empty_strided_generic(size, stride, &g_allocator, kKeys, c10::dtype_or_default(dtype));
}

// The storage of a device tensor on the host, with the same strides and offset.
at::Tensor OnHost(const at::Tensor& tensor)
{
    if (tensor.is_cpu()) {
        return tensor;
    }
    Finish();
    const size_t bytes = tensor.storage().nbytes();
    at::Tensor host =
        at::empty({static_cast<int64_t>(bytes / tensor.element_size())}, tensor.options().device(at::kCPU));
    if (bytes > 0) {
        Check(aclrtMemcpy(host.mutable_data_ptr(), bytes, tensor.storage().data(), bytes, kToHost));
    }
    return host.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

at::Tensor CopyFrom(const at::Tensor& self, const at::Tensor& to, bool)
{
    if (to.is_cpu()) {
        to.copy_(OnHost(self));
        return to;
    }
    const size_t bytes = to.nbytes();
    const bool isPlain =
        to.is_contiguous() && self.is_contiguous() && self.sizes() == to.sizes() && self.dtype() == to.dtype();
    if (bytes > 0 && isPlain && !self.is_cpu()) {
        g_queue.Add([self, to, bytes, stream = Current()] {
            Check(aclrtMemcpyAsync(to.mutable_data_ptr(), bytes, self.const_data_ptr(), bytes, kOnDevice, stream));
        });
        return to;
    }
    Finish();
    const at::Tensor host = isPlain ? self : OnHost(to).copy_(OnHost(self));
    if (bytes > 0 && isPlain) {
        Check(aclrtMemcpy(to.mutable_data_ptr(), bytes, host.const_data_ptr(), bytes, kToDevice));
    } else if (bytes > 0) {
        const size_t all = to.storage().nbytes();
        Check(aclrtMemcpy(to.storage().mutable_data(), all, host.storage().data(), all, kToDevice));
    }
    return to;
}

at::Tensor CopyFromAndResize(const at::Tensor& self, const at::Tensor& to)
{
    if (self.sizes() != to.sizes()) {
        to.storage().set_data_ptr(g_allocator.allocate(self.nbytes()));
        to.storage().set_nbytes(self.nbytes());
        to.unsafeGetTensorImpl()->set_sizes_contiguous(self.sizes());
    }
    return CopyFrom(self, to, false);
}

at::Tensor Convolution(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                       at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation, bool transposed,
                       at::IntArrayRef outputPadding, int64_t groups)
{
    const std::optional<at::Tensor> hostBias = bias ? std::optional(OnHost(*bias)) : std::nullopt;
    return at::convolution(OnHost(input), OnHost(weight), hostBias, stride, padding, dilation, transposed,
                           outputPadding, groups)
        .to(kDevice);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> ConvolutionBackward(const at::Tensor& grad, const at::Tensor& input,
                                                                   const at::Tensor& weight, at::IntArrayRef stride,
                                                                   at::IntArrayRef padding, at::IntArrayRef dilation,
                                                                   bool transposed, at::IntArrayRef outputPadding,
                                                                   int64_t groups, std::array<bool, 3>)
{
    const std::vector<int64_t> biasSize = {grad.size(1)};
    const auto [x, w, b] =
        at::convolution_backward(OnHost(grad), OnHost(input), OnHost(weight), biasSize, stride, padding, dilation,
                                 transposed, outputPadding, groups, {true, true, true});
    return {x.to(kDevice), w.to(kDevice), b.to(kDevice)};
}

void OnCpu(const c10::OperatorHandle& op, torch::jit::Stack* stack)
{
    at::native::cpu_fallback(op, stack);
}

}  // namespace

REGISTER_ALLOCATOR(c10::DeviceType::PrivateUse1, &g_allocator);
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

TORCH_LIBRARY_IMPL(_, PrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&OnCpu>());
}

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, library)
{
    library.fallback(torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library)
{
    library.impl("empty.memory_format", &Empty);
    library.impl("empty_strided", &EmptyStrided);
    library.impl("_copy_from", &CopyFrom);
    library.impl("_copy_from_and_resize", &CopyFromAndResize);
    library.impl("as_strided", &at::cpu::as_strided);
    library.impl("view", &at::cpu::view);
    library.impl("_reshape_alias", &at::cpu::_reshape_alias);
    library.impl("unfold", &at::cpu::unfold);
    library.impl("convolution_overrideable", &Convolution);
    library.impl("convolution_backward_overrideable", &ConvolutionBackward);
    using Set = at::Tensor& (*)(at::Tensor&, at::Storage);
    library.impl("set_.source_Storage", static_cast<Set>(&at::cpu::set_));
    using SetView = at::Tensor& (*)(at::Tensor&, at::Storage, int64_t, at::IntArrayRef, at::IntArrayRef);
    library.impl("set_.source_Storage_storage_offset", static_cast<SetView>(&at::cpu::set_));
}

extern "C" {

void npu_register()
{
    at::RegisterPrivateUse1HooksInterface(new Hooks());
}

// Empties the queue, as NPUStream::stream() does.
void* npu_read_stream()
{
    g_queue.Drain();
    return Current();
}

void* npu_new_stream()
{
    return NewStream();
}

void* npu_exchange_stream(void* stream)
{
    return std::exchange(Current(), stream);
}

int npu_set_device(int device)
{
    return aclrtSetDevice(device);
}

void npu_synchronize()
{
    Finish();
}
}
