// The part of onnxruntime's C ABI that custom operators use, in API version 19 (onnxruntime 1.19 and later).
//
// The ABI fixes the position of each function in the table of functions, and the order of the members of a custom
// operator. So this header needs no header of onnxruntime, which packages on PyPI do not contain.
#ifndef OPFORGE_OP_PLUGIN_ORT_ABI_H
#define OPFORGE_OP_PLUGIN_ORT_ABI_H

#include <cstddef>
#include <cstdint>

namespace opforge::ort {

inline constexpr uint32_t kApiVersion = 19;
inline constexpr int32_t kFail = 1;
inline constexpr int32_t kInvalidArgument = 2;
inline constexpr int32_t kUndefined = 0;  // an element type: any
inline constexpr int32_t kRequired = 0;
inline constexpr int32_t kOptional = 1;
inline constexpr int32_t kIntAttribute = 1;
inline constexpr int32_t kIntsAttribute = 2;
inline constexpr int32_t kFloatAttribute = 3;
inline constexpr int32_t kFloatsAttribute = 4;
inline constexpr int32_t kStringAttribute = 5;

struct Status;
struct SessionOptions;
struct CustomOpDomain;
struct KernelInfo;
struct KernelContext;
struct ShapeContext;
struct Attribute;
struct CustomOp;
struct TypeAndShape;
struct Value;
using Slot = void (*)();

struct ApiBase {
    const Slot* (*GetApi)(uint32_t version);
    const char* (*GetVersionString)();
};

/// One row for each function: position in the table, name, type.
#define OPFORGE_ORT_FUNCTIONS(row)                                                             \
    row(0, CreateStatus, Status*(int32_t code, const char* message));                          \
    row(2, GetErrorMessage, const char*(const Status*));                                       \
    row(26, CreateCustomOpDomain, Status*(const char* name, CustomOpDomain**));                \
    row(27, AddOperator, Status*(CustomOpDomain*, const CustomOp*));                           \
    row(28, AddDomain, Status*(SessionOptions*, CustomOpDomain*));                             \
    row(51, GetData, Status*(Value*, void**));                                                 \
    row(57, CreateTypeAndShape, Status*(TypeAndShape**));                                      \
    row(58, SetElementType, Status*(TypeAndShape*, int32_t type));                             \
    row(59, SetDims, Status*(TypeAndShape*, const int64_t* dims, size_t rank));                \
    row(60, GetElementType, Status*(const TypeAndShape*, int32_t*));                           \
    row(61, GetRank, Status*(const TypeAndShape*, size_t*));                                   \
    row(62, GetDims, Status*(const TypeAndShape*, int64_t* dims, size_t rank));                \
    row(65, GetTypeAndShape, Status*(const Value*, TypeAndShape**));                           \
    row(85, GetFloat, Status*(const KernelInfo*, const char* name, float*));                   \
    row(86, GetInt, Status*(const KernelInfo*, const char* name, int64_t*));                   \
    row(87, GetString, Status*(const KernelInfo*, const char* name, char*, size_t* size));     \
    row(88, GetInputCount, Status*(const KernelContext*, size_t*));                            \
    row(89, GetOutputCount, Status*(const KernelContext*, size_t*));                           \
    row(90, GetInput, Status*(const KernelContext*, size_t index, const Value**));             \
    row(91, GetOutput, Status*(KernelContext*, size_t, const int64_t* dims, size_t, Value**)); \
    row(93, ReleaseStatus, void(Status*));                                                     \
    row(99, ReleaseTypeAndShape, void(TypeAndShape*));                                         \
    row(162, GetFloats, Status*(const KernelInfo*, const char* name, float*, size_t* size));   \
    row(163, GetInts, Status*(const KernelInfo*, const char* name, int64_t*, size_t* size));   \
    row(267, CountKnownInputs, Status*(const ShapeContext*, size_t*));                         \
    row(268, GetKnownInput, Status*(const ShapeContext*, size_t index, TypeAndShape**));       \
    row(269, GetKnownAttribute, Status*(const ShapeContext*, const char*, const Attribute**)); \
    row(270, SetOutputShape, Status*(const ShapeContext*, size_t index, const TypeAndShape*)); \
    row(271, SetDimNames, Status*(TypeAndShape*, const char* names[], size_t rank));           \
    row(272, ReadAttribute, Status*(const Attribute*, int32_t type, void*, size_t, size_t* size))

/// The table of functions of one onnxruntime.
class Api {
public:
    explicit Api(const Slot* slots) : slots_(slots) {}

#define OPFORGE_ORT_METHOD(slot, name, ...)                             \
    template <typename... Arguments>                                    \
    auto name(Arguments... arguments) const                             \
    {                                                                   \
        using Function = __VA_ARGS__;                                   \
        return reinterpret_cast<Function*>(slots_[slot])(arguments...); \
    }                                                                   \
    static_assert(true, "a semicolon follows")
    OPFORGE_ORT_FUNCTIONS(OPFORGE_ORT_METHOD);
#undef OPFORGE_ORT_METHOD

private:
    const Slot* slots_;
};

/// The callbacks of one custom operator, in the order of the ABI.
struct CustomOp {
    uint32_t version = kApiVersion;
    Slot createKernelOfOldVersions = nullptr;
    const char* (*getName)(const CustomOp*) = nullptr;
    const char* (*getProvider)(const CustomOp*) = nullptr;
    int32_t (*getInputType)(const CustomOp*, size_t index) = nullptr;
    size_t (*getInputCount)(const CustomOp*) = nullptr;
    int32_t (*getOutputType)(const CustomOp*, size_t index) = nullptr;
    size_t (*getOutputCount)(const CustomOp*) = nullptr;
    Slot computeOfOldVersions = nullptr;
    void (*destroyKernel)(void* kernel) = nullptr;
    int32_t (*getInputPresence)(const CustomOp*, size_t index) = nullptr;
    int32_t (*getOutputPresence)(const CustomOp*, size_t index) = nullptr;
    int32_t (*getInputMemory)(const CustomOp*, size_t index) = nullptr;
    int32_t (*getLeastVariadicInputs)(const CustomOp*) = nullptr;
    int32_t (*areVariadicInputsEqual)(const CustomOp*) = nullptr;
    int32_t (*getLeastVariadicOutputs)(const CustomOp*) = nullptr;
    int32_t (*areVariadicOutputsEqual)(const CustomOp*) = nullptr;
    Status* (*createKernel)(const CustomOp*, const Slot* api, const KernelInfo*, void** kernel) = nullptr;
    Status* (*compute)(void* kernel, KernelContext*) = nullptr;
    Status* (*inferShapes)(const CustomOp*, ShapeContext*) = nullptr;
    int32_t (*getFirstVersion)(const CustomOp*) = nullptr;
    int32_t (*getLastVersion)(const CustomOp*) = nullptr;
    Slot getInPlacePairs = nullptr;
    Slot releaseInPlacePairs = nullptr;
    Slot getAliases = nullptr;
    Slot releaseAliases = nullptr;
};

}  // namespace opforge::ort

#endif  // OPFORGE_OP_PLUGIN_ORT_ABI_H
