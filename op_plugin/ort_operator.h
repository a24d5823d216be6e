// Custom operators of onnxruntime that call aclnn functions; the generated part describes each operator by a class.
#ifndef OPFORGE_OP_PLUGIN_ORT_OPERATOR_H
#define OPFORGE_OP_PLUGIN_ORT_OPERATOR_H

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"
#include "common/acl_arguments.h"
#include "common/check.h"
#include "opforge_twin/control.h"
#include "ort_abi.h"

namespace opforge::ort {

/// An error that onnxruntime reports; the code is one of its codes.
class Refusal : public std::runtime_error {
public:
    Refusal(int32_t code, const std::string& text) : std::runtime_error(text), code_(code) {}

    int32_t Code() const { return code_; }

private:
    int32_t code_;
};

/// Runs a callback; an exception becomes a status of onnxruntime.
template <typename Body>
Status* Guarded(const Api& api, Body body) noexcept
{
    try {
        body();
        return nullptr;
    } catch (const Refusal& refusal) {
        return api.CreateStatus(refusal.Code(), refusal.what());
    } catch (const std::exception& error) {
        return api.CreateStatus(kFail, error.what());
    }
}

/// Throws the error of a function of onnxruntime.
inline void Require(const Api& api, Status* status)
{
    if (status != nullptr) {
        const std::string text = api.GetErrorMessage(status);
        api.ReleaseStatus(status);
        throw Refusal(kFail, text);
    }
}

/// Returns whether a function of onnxruntime succeeded.
inline bool IsGood(const Api& api, Status* status)
{
    if (status != nullptr) {
        api.ReleaseStatus(status);
    }
    return status == nullptr;
}

inline void RequireAcl(const char* function, aclError status)
{
    if (status != ACL_SUCCESS) {
        const char* text = aclGetRecentErrMsg();
        throw Refusal(kFail, text != nullptr && *text != '\0'
                                 ? std::string(text)
                                 : std::string(function) + " returned " + std::to_string(status));
    }
}

inline DataType DtypeOf(int32_t elementType)
{
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.onnx == elementType) {
            return facts.dtype;
        }
    }
    // No rule accepts it.
    return static_cast<DataType>(1000 + elementType);
}

inline int32_t ElementTypeOf(DataType dtype)
{
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.dtype == dtype) {
            return facts.onnx;
        }
    }
    return kUndefined;
}

inline void ReadTypeAndShape(const Api& api, const TypeAndShape* info, Argument& argument)
{
    size_t rank = 0;
    int32_t elementType = kUndefined;
    Require(api, api.GetRank(info, &rank));
    Require(api, api.GetElementType(info, &elementType));
    argument.isPresent = true;
    argument.dims.assign(rank, 0);
    argument.dtype = DtypeOf(elementType);
    Require(api, api.GetDims(info, argument.dims.data(), rank));
}

/// Reads the attributes of a node when its kernel is created.
class KernelAttributes {
public:
    KernelAttributes(const Api& api, const KernelInfo* info, const char* opType)
        : api_(api), info_(info), opType_(opType)
    {
    }

    void Read(const char* name, bool isRequired, int64_t& value) const
    {
        Found(name, isRequired, "an int", IsGood(api_, api_.GetInt(info_, name, &value)));
    }

    void Read(const char* name, bool isRequired, float& value) const
    {
        Found(name, isRequired, "a float", IsGood(api_, api_.GetFloat(info_, name, &value)));
    }

    void Read(const char* name, bool isRequired, bool& value) const
    {
        auto number = static_cast<int64_t>(value);
        Read(name, isRequired, number);
        value = number != 0;
    }

    void Read(const char* name, bool isRequired, std::string& value) const
    {
        size_t size = 0;
        const bool isFound = IsGood(api_, api_.GetString(info_, name, static_cast<char*>(nullptr), &size));
        Found(name, isRequired, "a string", isFound);
        if (isFound) {
            std::string text(size, '\0');
            Require(api_, api_.GetString(info_, name, text.data(), &size));
            value = text.c_str();
        }
    }

    void Read(const char* name, bool isRequired, std::vector<int64_t>& value) const
    {
        ReadList(name, isRequired, "a list of ints", value, [this](auto... rest) { return api_.GetInts(rest...); });
    }

    void Read(const char* name, bool isRequired, std::vector<float>& value) const
    {
        ReadList(name, isRequired, "a list of floats", value, [this](auto... rest) { return api_.GetFloats(rest...); });
    }

    void Read(const char* name, bool isRequired, std::vector<bool>& value) const
    {
        std::vector<int64_t> numbers(value.begin(), value.end());
        Read(name, isRequired, numbers);
        value.assign(numbers.begin(), numbers.end());
    }

private:
    template <typename T, typename Get>
    void ReadList(const char* name, bool isRequired, const char* expected, std::vector<T>& value, Get get) const
    {
        size_t size = 0;
        const bool isFound = IsGood(api_, get(info_, name, static_cast<T*>(nullptr), &size));
        Found(name, isRequired, expected, isFound);
        if (isFound) {
            value.resize(size);
            Require(api_, get(info_, name, value.data(), &size));
        }
    }

    /// Returns if an attribute was read, or is absent and has a default.
    void Found(const char* name, bool isRequired, const char* expected, bool isFound) const
    {
        if (isFound) {
            return;
        }
        // onnxruntime has no function for the type of an attribute.
        float number = 0;
        int64_t integer = 0;
        size_t size = 0;
        const bool isOther = IsGood(api_, api_.GetFloat(info_, name, &number)) ||
                             IsGood(api_, api_.GetInt(info_, name, &integer)) ||
                             IsGood(api_, api_.GetString(info_, name, static_cast<char*>(nullptr), &size)) ||
                             IsGood(api_, api_.GetFloats(info_, name, static_cast<float*>(nullptr), &size)) ||
                             IsGood(api_, api_.GetInts(info_, name, static_cast<int64_t*>(nullptr), &size));
        if (isOther || isRequired) {
            throw Refusal(kInvalidArgument, std::string(opType_) + ": attribute " + name + ": got " +
                                                (isOther ? "a value of another type" : "none") + ", expected " +
                                                expected + "; correct the node");
        }
    }

    const Api& api_;
    const KernelInfo* info_;
    const char* opType_;
};

/// Reads attributes while onnxruntime infers shapes; an attribute of another type keeps its default.
class KnownAttributes {
public:
    KnownAttributes(const Api& api, const ShapeContext* context) : api_(api), context_(context) {}

    void Read(const char* name, bool /*isRequired*/, int64_t& value) const { Take(name, kIntAttribute, value); }

    void Read(const char* name, bool /*isRequired*/, float& value) const { Take(name, kFloatAttribute, value); }

    void Read(const char* name, bool /*isRequired*/, bool& value) const
    {
        auto number = static_cast<int64_t>(value);
        Take(name, kIntAttribute, number);
        value = number != 0;
    }

    void Read(const char* name, bool /*isRequired*/, std::string& value) const
    {
        std::string text(256, '\0');
        size_t size = 0;
        if (const Attribute* found = Find(name);
            found != nullptr &&
            IsGood(api_, api_.ReadAttribute(found, kStringAttribute, text.data(), text.size() - 1, &size))) {
            value = text.c_str();
        }
    }

    void Read(const char* name, bool /*isRequired*/, std::vector<int64_t>& value) const
    {
        TakeList(name, kIntsAttribute, value);
    }

    void Read(const char* name, bool /*isRequired*/, std::vector<float>& value) const
    {
        TakeList(name, kFloatsAttribute, value);
    }

    void Read(const char* name, bool /*isRequired*/, std::vector<bool>& value) const
    {
        std::vector<int64_t> numbers(value.begin(), value.end());
        TakeList(name, kIntsAttribute, numbers);
        value.assign(numbers.begin(), numbers.end());
    }

private:
    template <typename T>
    void TakeList(const char* name, int32_t type, std::vector<T>& value) const
    {
        constexpr size_t kMostItems = 256;
        std::vector<T> items(kMostItems);
        size_t bytes = 0;
        if (const Attribute* found = Find(name);
            found != nullptr &&
            IsGood(api_, api_.ReadAttribute(found, type, items.data(), items.size() * sizeof(T), &bytes))) {
            items.resize(bytes / sizeof(T));
            value = items;
        }
    }

    template <typename T>
    void Take(const char* name, int32_t type, T& value) const
    {
        T given = value;
        size_t size = 0;
        if (const Attribute* found = Find(name);
            found != nullptr && IsGood(api_, api_.ReadAttribute(found, type, &given, sizeof(T), &size))) {
            value = given;
        }
    }

    const Attribute* Find(const char* name) const
    {
        const Attribute* found = nullptr;
        return IsGood(api_, api_.GetKnownAttribute(context_, name, &found)) ? found : nullptr;
    }

    const Api& api_;
    const ShapeContext* context_;
};

/// The device, for one call at a time: the options and the reports of the CPU twin belong to the process.
class Device {
public:
    Device() : guard_(Lock())
    {
        Initialize();
        RequireAcl("aclrtSetDevice", aclrtSetDevice(0));
        // One order of the blocks: equal calls give equal bits.
        for (const auto& [name, value] : {std::pair{"level", OPFORGE_ORT_LEVEL}, std::pair{"seed", "1"},
                                          std::pair{"threads", "0"}, std::pair{"soc", OPFORGE_ORT_SOC}}) {
            RequireAcl(name, opforgeTwinSetOption(name, value));
        }
        RequireAcl("aclrtCreateStream", aclrtCreateStream(&stream_));
    }

    ~Device()
    {
        aclrtDestroyStream(stream_);
        opforgeTwinTakeReports();  // they would accumulate
    }

    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    aclrtStream Stream() const { return stream_; }

private:
    static std::mutex& Lock()
    {
        static std::mutex lock;
        return lock;
    }

    /// Initializes the runtime in the first call, unless the application has done so.
    static void Initialize()
    {
        constexpr aclError kRepeatedInitialization = 100002;
        static bool isDone = false;
        if (isDone) {
            return;
        }
        const aclError status = aclInit(nullptr);
        if (status == ACL_SUCCESS) {
            std::atexit([] { aclFinalize(); });
        } else if (status != kRepeatedInitialization) {
            RequireAcl("aclInit", status);
        }
        isDone = true;
    }

    std::lock_guard<std::mutex> guard_;
    aclrtStream stream_ = nullptr;
};

/// Device memory; null for 0 bytes.
class Memory {
public:
    explicit Memory(size_t bytes)
    {
        if (bytes > 0) {
            RequireAcl("aclrtMalloc", aclrtMalloc(&address_, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        }
    }

    ~Memory()
    {
        if (address_ != nullptr) {
            aclrtFree(address_);
        }
    }

    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    void* Address() const { return address_; }

private:
    void* address_ = nullptr;
};

/// A dense tensor on the device.
class DeviceTensor {
public:
    DeviceTensor(const std::vector<int64_t>& dims, DataType dtype) : bytes_(Bytes(dims, dtype)), memory_(bytes_)
    {
        std::vector<int64_t> strides(dims.size(), 1);
        for (size_t axis = dims.size(); axis > 1; --axis) {
            strides[axis - 2] = strides[axis - 1] * dims[axis - 1];
        }
        handle_ = aclCreateTensor(dims.data(), dims.size(), static_cast<aclDataType>(dtype), strides.data(), 0,
                                  ACL_FORMAT_ND, dims.data(), dims.size(), memory_.Address());
        if (handle_ == nullptr) {
            RequireAcl("aclCreateTensor", ACL_ERROR_INVALID_PARAM);
        }
    }

    ~DeviceTensor() { aclDestroyTensor(handle_); }

    DeviceTensor(const DeviceTensor&) = delete;
    DeviceTensor& operator=(const DeviceTensor&) = delete;

    aclTensor* Handle() const { return handle_; }

    void Upload(const void* data)
    {
        if (bytes_ > 0) {
            RequireAcl("aclrtMemcpy", aclrtMemcpy(memory_.Address(), bytes_, data, bytes_, ACL_MEMCPY_HOST_TO_DEVICE));
        }
    }

    void Download(void* data) const
    {
        if (bytes_ > 0) {
            RequireAcl("aclrtMemcpy", aclrtMemcpy(data, bytes_, memory_.Address(), bytes_, ACL_MEMCPY_DEVICE_TO_HOST));
        }
    }

private:
    static size_t Bytes(const std::vector<int64_t>& dims, DataType dtype)
    {
        auto bytes = static_cast<size_t>(SizeOf(dtype));
        for (const int64_t dim : dims) {
            bytes *= static_cast<size_t>(dim);
        }
        return bytes;
    }

    size_t bytes_;
    Memory memory_;
    aclTensor* handle_ = nullptr;
};

/// An argument of an aclnn function, null if it is absent.
struct Passed {
    std::shared_ptr<DeviceTensor> tensor = nullptr;
    std::unique_ptr<aclIntArray, aclnnStatus (*)(const aclIntArray*)> list{nullptr, aclDestroyIntArray};

    aclTensor* Tensor() const { return tensor ? tensor->Handle() : nullptr; }

    aclIntArray* List() const { return list.get(); }
};

/// An attribute as the scalar object of an aclnn function.
class Scalar {
public:
    explicit Scalar(float value) : handle_(aclCreateScalar(&value, ACL_FLOAT), aclDestroyScalar) {}
    explicit Scalar(int64_t value) : handle_(aclCreateScalar(&value, ACL_INT64), aclDestroyScalar) {}
    explicit Scalar(bool value) : handle_(aclCreateScalar(&value, ACL_BOOL), aclDestroyScalar) {}

    const aclScalar* Handle() const { return handle_.get(); }

private:
    std::unique_ptr<aclScalar, aclnnStatus (*)(const aclScalar*)> handle_;
};

/// A list attribute in the structure of an aclnn function.
template <typename Structure>
class Array;

#define OPFORGE_ORT_ARRAY(Name, Item)                                                                     \
    template <>                                                                                           \
    class Array<acl##Name> {                                                                              \
    public:                                                                                               \
        explicit Array(const std::vector<Item>& items) : copy_(new Item[items.size()])                    \
        {                                                                                                 \
            std::copy(items.begin(), items.end(), copy_.get());                                           \
            handle_.reset(aclCreate##Name(copy_.get(), items.size()));                                    \
        }                                                                                                 \
        acl##Name* get() const                                                                            \
        {                                                                                                 \
            return handle_.get();                                                                         \
        }                                                                                                 \
                                                                                                          \
    private:                                                                                              \
        std::unique_ptr<Item[]> copy_;                                                                    \
        std::unique_ptr<acl##Name, aclnnStatus (*)(const acl##Name*)> handle_{nullptr, aclDestroy##Name}; \
    }
OPFORGE_ORT_ARRAY(IntArray, int64_t);
OPFORGE_ORT_ARRAY(FloatArray, float);
OPFORGE_ORT_ARRAY(BoolArray, bool);
#undef OPFORGE_ORT_ARRAY

/// A node of an operator.
template <typename Operator>
class Kernel {
public:
    Kernel(const Api& api, const KernelInfo* info) : api_(api)
    {
        Operator::ReadAttributes(KernelAttributes(api_, info, Operator::kOpType), attributes_);
    }

    const Api& GetApi() const { return api_; }

    void Compute(KernelContext* context) const
    {
        typename Operator::Call call;
        typename Operator::Symbols symbols;
        Operator::SetAttributes(attributes_, call);
        std::array<const Value*, Operator::kInputs> values = {};
        ReadInputs(context, call, values);
        const Device device;
        ReadDevice(call);
        if (const MaybeViolation broken = Operator::Check(call, symbols)) {
            throw Refusal(kInvalidArgument, broken->message);
        }
        std::array<Passed, Operator::kInputs> inputs;
        const auto arguments = Operator::Inputs(call);
        for (size_t i = 0; i < arguments.size(); ++i) {
            if (arguments[i]->isPresent) {
                inputs[i] = Pass(*arguments[i], i, values[i]);
            }
        }
        std::array<Passed, Operator::kOutputs> outputs;
        std::array<Value*, Operator::kOutputs> results = {};
        size_t count = 0;
        Require(api_, api_.GetOutputCount(context, &count));
        for (size_t i = 0; i < outputs.size(); ++i) {
            std::vector<int64_t> dims;
            for (const Dimension& dimension : Operator::OutputShape(i, call, symbols)) {
                dims.push_back(dimension.value.ValueOr(0));
            }
            // An operator in place writes to the copy of its input on the device.
            outputs[i].tensor = Operator::MemoryOf(i) < inputs.size()
                                    ? inputs[Operator::MemoryOf(i)].tensor
                                    : std::make_shared<DeviceTensor>(dims, Operator::OutputDtype(i, call));
            if (i < count) {
                Require(api_, api_.GetOutput(context, i, dims.data(), dims.size(), &results[i]));
            }
        }
        Run(device, inputs, outputs);
        for (size_t i = 0; i < outputs.size(); ++i) {
            if (results[i] != nullptr) {  // nothing reads an absent output
                outputs[i].tensor->Download(Data(results[i]));
            }
        }
    }

private:
    void ReadInputs(KernelContext* context, typename Operator::Call& call,
                    std::array<const Value*, Operator::kInputs>& values) const
    {
        const auto arguments = Operator::Inputs(call);
        size_t count = 0;
        Require(api_, api_.GetInputCount(context, &count));
        for (size_t i = 0; i < values.size() && i < count; ++i) {
            Require(api_, api_.GetInput(context, i, &values[i]));
            if (values[i] == nullptr) {
                continue;
            }
            Argument& argument = *arguments[i];
            TypeAndShape* info = nullptr;
            Require(api_, api_.GetTypeAndShape(values[i], &info));
            const auto release = [this](TypeAndShape* owned) { api_.ReleaseTypeAndShape(owned); };
            const std::unique_ptr<TypeAndShape, decltype(release)> owner(info, release);
            ReadTypeAndShape(api_, info, argument);
            if (Operator::IsList(i) && argument.dtype == DataType::kInt64 && argument.dims.size() == 1) {
                const auto* data = static_cast<const int64_t*>(Data(values[i]));
                argument.values.assign(data, data + argument.dims[0]);
                argument.areValuesKnown = true;
                argument.isPresent = argument.dims[0] != 0;  // an empty list is absent
            }
        }
    }

    Passed Pass(const Argument& argument, size_t index, const Value* value) const
    {
        Passed passed;
        if (Operator::IsList(index)) {
            passed.list.reset(aclCreateIntArray(argument.values.data(), argument.values.size()));
            return passed;
        }
        passed.tensor = std::make_shared<DeviceTensor>(argument.dims, argument.dtype);
        passed.tensor->Upload(Data(value));
        return passed;
    }

    void* Data(const Value* value) const
    {
        void* data = nullptr;
        Require(api_, api_.GetData(const_cast<Value*>(value), &data));
        return data;
    }

    void Run(const Device& device, const std::array<Passed, Operator::kInputs>& inputs,
             const std::array<Passed, Operator::kOutputs>& outputs) const
    {
        uint64_t bytes = 0;
        aclOpExecutor* executor = nullptr;
        RequireAcl(Operator::kOpType, Operator::Plan(inputs, attributes_, outputs, &bytes, &executor));
        const Memory workspace(bytes);
        RequireAcl(Operator::kOpType, Operator::Launch(workspace.Address(), bytes, executor, device.Stream()));
        RequireAcl("aclrtSynchronizeStream", aclrtSynchronizeStream(device.Stream()));
    }

    Api api_;
    typename Operator::Attributes attributes_;
};

/// An operator under one name, for one combination of the element types that the outputs depend on.
template <typename Operator>
struct Registered : CustomOp {
    Registered(const Api& given, bool canInfer, const char* givenName, std::map<size_t, int32_t> givenTypes)
        : api(given), name(givenName), types(std::move(givenTypes))
    {
        getName = [](const CustomOp* self) { return Of(self).name; };
        getProvider = [](const CustomOp*) -> const char* { return nullptr; };
        getInputType = [](const CustomOp* self, size_t index) {
            const auto found = Of(self).types.find(index);
            return found == Of(self).types.end() ? kUndefined : found->second;
        };
        getInputCount = [](const CustomOp*) { return Operator::kInputs; };
        getOutputType = [](const CustomOp* self, size_t index) {
            typename Operator::Call call;
            for (const auto& [input, type] : Of(self).types) {
                Operator::Inputs(call)[input]->dtype = DtypeOf(type);
            }
            return ElementTypeOf(Operator::OutputDtype(index, call));
        };
        getOutputCount = [](const CustomOp*) { return Operator::kOutputs; };
        destroyKernel = [](void* kernel) { delete static_cast<Kernel<Operator>*>(kernel); };
        getInputPresence = [](const CustomOp*, size_t index) {
            return Operator::IsOptional(index) ? kOptional : kRequired;
        };
        getOutputPresence = [](const CustomOp*, size_t index) { return index == 0 ? kRequired : kOptional; };
        getInputMemory = [](const CustomOp*, size_t) { return 0; };
        getLeastVariadicInputs = getLeastVariadicOutputs = [](const CustomOp*) { return 0; };
        areVariadicInputsEqual = areVariadicOutputsEqual = [](const CustomOp*) { return 0; };
        createKernel = [](const CustomOp*, const Slot* slots, const KernelInfo* info, void** kernel) {
            const Api api(slots);
            return Guarded(api, [&] { *kernel = new Kernel<Operator>(api, info); });
        };
        compute = [](void* given, KernelContext* context) {
            const auto& kernel = *static_cast<const Kernel<Operator>*>(given);
            return Guarded(kernel.GetApi(), [&] { kernel.Compute(context); });
        };
        if (canInfer) {
            inferShapes = [](const CustomOp* self, ShapeContext* context) {
                const Api& api = Of(self).api;
                return Guarded(api, [&] { Of(self).Infer(context); });
            };
        }
        getFirstVersion = [](const CustomOp*) { return 1; };
        getLastVersion = [](const CustomOp*) { return INT32_MAX; };
    }

    static const Registered& Of(const CustomOp* self) { return *static_cast<const Registered*>(self); }

    /// Infers the shapes of a valid call; one object does so for all combinations of element types. A call that
    /// violates a constraint is rejected when it runs.
    void Infer(ShapeContext* context) const
    {
        typename Operator::Call call;
        typename Operator::Symbols symbols;
        typename Operator::Attributes attributes;
        Operator::ReadAttributes(KnownAttributes(api, context), attributes);
        Operator::SetAttributes(attributes, call);
        call.mayCast = true;
        size_t count = 0;
        Require(api, api.CountKnownInputs(context, &count));
        const auto arguments = Operator::Inputs(call);
        for (size_t i = 0; i < count && i < arguments.size(); ++i) {
            TypeAndShape* info = nullptr;  // of the context
            if (!IsGood(api, api.GetKnownInput(context, i, &info)) || info == nullptr) {
                continue;
            }
            ReadTypeAndShape(api, info, *arguments[i]);
            // onnxruntime shows an absent input as a scalar without a type, and a tensor of unknown rank as a scalar.
            arguments[i]->isPresent = arguments[i]->dtype != DtypeOf(kUndefined);
            arguments[i]->isRankKnown = !arguments[i]->dims.empty();
        }
        if (Operator::Check(call, symbols)) {
            return;
        }
        for (size_t i = 0; i < Operator::kOutputs; ++i) {
            SetShape(context, i, ElementTypeOf(Operator::OutputDtype(i, call)),
                     Operator::OutputShape(i, call, symbols));
        }
    }

    void SetShape(ShapeContext* context, size_t index, int32_t elementType, const Dimensions& dimensions) const
    {
        static std::atomic<uint64_t> unknown = 0;
        std::vector<int64_t> dims;
        std::vector<std::string> names;
        for (const Dimension& dimension : dimensions) {
            if (dimension.isOpen) {
                return;
            }
            const bool isKnown = dimension.value.IsKnown();
            dims.push_back(dimension.value.ValueOr(-1));
            names.push_back(isKnown ? "" : "opforge_" + std::to_string(unknown++));
        }
        std::vector<const char*> texts;
        for (const std::string& each : names) {
            texts.push_back(each.c_str());
        }
        TypeAndShape* shape = nullptr;
        Require(api, api.CreateTypeAndShape(&shape));
        const bool isSet = IsGood(api, api.SetElementType(shape, elementType)) &&
                           IsGood(api, api.SetDims(shape, dims.data(), dims.size())) &&
                           IsGood(api, api.SetDimNames(shape, texts.data(), texts.size())) &&
                           IsGood(api, api.SetOutputShape(context, index, shape));
        static_cast<void>(isSet);  // without a shape, the declared one stays
        api.ReleaseTypeAndShape(shape);
    }

    Api api;
    const char* name;
    std::map<size_t, int32_t> types;
};

/// A name of an operator in models; "" is the domain ai.onnx.
struct Name {
    const char* domain;
    const char* opType;
};

/// Returns whether a version of onnxruntime is 1.`minor` or later.
inline bool IsAtLeast(const char* version, long minor)
{
    char* end = nullptr;
    const long major = std::strtol(version, &end, 10);
    return major > 1 || (major == 1 && *end == '.' && std::strtol(end + 1, nullptr, 10) >= minor);
}

/// The operators of the library for one onnxruntime, by domain.
class Library {
public:
    Library(const Api& api, const char* version) : api_(api), canInfer_(IsAtLeast(version, kInferringMinor)) {}

    template <typename Operator>
    void Add()
    {
        // onnxruntime computes float16 in float32 if a kernel for float32 exists. So only supported dtypes are
        // registered.
        std::vector<std::map<size_t, int32_t>> combinations = {{}};
        for (const auto& [leader, dtypes] : Operator::Leaders()) {
            std::vector<std::map<size_t, int32_t>> longer;
            for (const auto& combination : combinations) {
                for (const DataType dtype : dtypes) {
                    longer.push_back(combination);
                    longer.back()[leader] = ElementTypeOf(dtype);
                }
            }
            combinations = std::move(longer);
        }
        for (const Name& name : Operator::Names()) {
            for (const auto& types : combinations) {
                operators_.push_back(std::make_unique<Registered<Operator>>(api_, canInfer_, name.opType, types));
                Require(api_, api_.AddOperator(Domain(name.domain), operators_.back().get()));
            }
        }
    }

    void AddTo(SessionOptions* options) const
    {
        for (const auto& [name, domain] : domains_) {
            Require(api_, api_.AddDomain(options, domain));
        }
    }

private:
    CustomOpDomain* Domain(const std::string& name)
    {
        CustomOpDomain*& domain = domains_[name];
        if (domain == nullptr) {
            Require(api_, api_.CreateCustomOpDomain(name.c_str(), &domain));
        }
        return domain;
    }

    Api api_;
    // Older versions crash when they infer the shapes of a node with an absent input.
    static constexpr long kInferringMinor = 24;

    bool canInfer_;
    std::map<std::string, CustomOpDomain*> domains_;
    std::vector<std::unique_ptr<CustomOp>> operators_;
};

/// Adds the operators to a session; `addAll` fills the library of an onnxruntime that was not seen before.
template <typename AddAll>
Status* Register(SessionOptions* options, const ApiBase* base, AddAll addAll) noexcept
{
    const std::string version = base->GetVersionString();
    if (!IsAtLeast(version.c_str(), kApiVersion)) {
        const std::string text = "onnxruntime: got version " + version + ", expected 1." + std::to_string(kApiVersion) +
                                 " or later; upgrade it";
        // The functions for errors are in the first version.
        return Api(base->GetApi(1)).CreateStatus(kFail, text.c_str());
    }
    const Slot* slots = base->GetApi(kApiVersion);
    const Api api(slots);
    return Guarded(api, [&] {
        static std::mutex lock;
        // Sessions use the operators until the process ends.
        static auto* libraries = new std::map<const Slot*, std::unique_ptr<Library>>();
        const std::lock_guard<std::mutex> guard(lock);
        if (libraries->count(slots) == 0) {
            auto library = std::make_unique<Library>(api, version.c_str());
            addAll(*library);
            libraries->emplace(slots, std::move(library));
        }
        libraries->at(slots)->AddTo(options);
    });
}

}  // namespace opforge::ort

#endif  // OPFORGE_OP_PLUGIN_ORT_OPERATOR_H
