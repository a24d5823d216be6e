#ifndef OPFORGE_OP_HOST_COMMON_CONTEXT_H
#define OPFORGE_OP_HOST_COMMON_CONTEXT_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "common/check.h"
#include "exe_graph/runtime/compute_node_info.h"
#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/shape.h"
#include "exe_graph/runtime/storage_shape.h"
#include "exe_graph/runtime/tensor.h"
#include "graph/ge_error_codes.h"

/// A function of the acl library; null if the process does not have it. An application reads these messages there; ATC
/// has only stderr. The acl header is not included because graph compilers do not have it; there, the level is an enum.
extern "C" __attribute__((weak)) void aclAppLog(int level, const char* function, const char* file, uint32_t line,
                                                const char* format, ...);

namespace opforge {

constexpr int kLogLevelError = 3;
constexpr int64_t kUnknownDim = -1;
constexpr int64_t kUnknownRank = -2;

/// Reads a shape; nullptr is an absent argument, and the single dimension -2 is an unknown rank.
inline void ReadShape(const gert::Shape* shape, Argument& argument)
{
    argument.isPresent = shape != nullptr;
    if (shape == nullptr) {
        return;
    }
    argument.isRankKnown = !(shape->GetDimNum() == 1 && shape->GetDim(0) == kUnknownRank);
    argument.dims.clear();
    for (size_t axis = 0; axis < shape->GetDimNum(); ++axis) {
        argument.dims.push_back(shape->GetDim(axis));
    }
}

inline void ReadShape(const gert::StorageShape* shape, Argument& argument)
{
    ReadShape(shape == nullptr ? nullptr : &shape->GetStorageShape(), argument);
}

inline void ReadDtype(const gert::CompileTimeTensorDesc* description, Argument& argument)
{
    if (description != nullptr) {
        argument.dtype = static_cast<DataType>(description->GetDataType());
    }
}

/// Reads the values of a host list if the runtime has them.
inline void ReadValues(const gert::Tensor* tensor, Argument& argument)
{
    const bool isNarrow = tensor != nullptr && tensor->GetDataType() == ge::DT_INT32;
    const void* values = tensor == nullptr ? nullptr : tensor->GetAddr();
    argument.areValuesKnown = values != nullptr && argument.dims.size() == 1 && argument.dims[0] >= 0;
    if (!argument.areValuesKnown) {
        return;
    }
    for (int64_t i = 0; i < argument.dims[0]; ++i) {
        argument.values.push_back(isNarrow ? static_cast<const int32_t*>(values)[i]
                                           : static_cast<const int64_t*>(values)[i]);
    }
}

inline void WriteShape(const Dimensions& dimensions, gert::Shape& shape)
{
    const auto isOpen = [](const Dimension& dimension) { return dimension.isOpen; };
    if (std::any_of(dimensions.begin(), dimensions.end(), isOpen)) {
        shape.SetDimNum(1);
        shape.SetDim(0, kUnknownRank);
        return;
    }
    shape.SetDimNum(dimensions.size());
    for (size_t axis = 0; axis < dimensions.size(); ++axis) {
        shape.SetDim(axis, dimensions[axis].value.ValueOr(kUnknownDim));
    }
}

/// Writes the reason of a rejected call to stderr and to the log of acl: the runtime only reports the rejection.
inline ge::graphStatus Refuse(const gert::ExtendedKernelContext* context, const std::string& message)
{
    const char* node = context->GetNodeName();
    const bool isNamed = node != nullptr && *node != '\0';
    std::fprintf(stderr, "%s%s%s%s\n", message.c_str(), isNamed ? " (node " : "", isNamed ? node : "",
                 isNamed ? ")" : "");
    if (aclAppLog != nullptr) {
        aclAppLog(kLogLevelError, __func__, __FILE__, __LINE__, "%s", message.c_str());
    }
    return ge::GRAPH_FAILED;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_CONTEXT_H
