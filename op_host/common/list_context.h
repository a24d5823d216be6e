#ifndef OPFORGE_OP_HOST_COMMON_LIST_CONTEXT_H
#define OPFORGE_OP_HOST_COMMON_LIST_CONTEXT_H

#include <cstddef>
#include <cstdint>
#include <vector>

#include "common/context.h"
#include "common/tensor_list.h"
#include "graph/types.h"

namespace opforge {

/// Returns the number of tensors of an output; an absent optional output has none.
template <typename Context>
size_t OutputCount(const Context* context, size_t irIndex)
{
    const auto* output = context->GetIrOutputInstanceInfo(irIndex);
    return output == nullptr ? 0 : output->GetInstanceNum();
}

/// Returns the position of the first tensor of an output among all output tensors of the node.
template <typename Context>
size_t OutputStart(const Context* context, size_t irIndex)
{
    const auto* output = context->GetIrOutputInstanceInfo(irIndex);
    return output == nullptr ? 0 : output->GetInstanceStart();
}

/// Sets the number of tensors of an input list.
template <typename Context>
void ReadCount(const Context* context, size_t irIndex, ListArgument& list)
{
    const auto* input = context->GetIrInputInstanceInfo(irIndex);
    Resize(list, input == nullptr ? 0 : input->GetInstanceNum());
}

template <typename Context>
void ReadShapes(const Context* context, size_t irIndex, ListArgument& list)
{
    ReadCount(context, irIndex, list);
    for (size_t member = 0; member < list.elements.size(); ++member) {
        ReadShape(context->GetDynamicInputShape(irIndex, member), list.elements[member]);
    }
}

template <typename Context>
void ReadDtypes(const Context* context, size_t irIndex, ListArgument& list)
{
    ReadCount(context, irIndex, list);
    for (size_t member = 0; member < list.elements.size(); ++member) {
        list.elements[member].isPresent = true;
        list.elements[member].dtype = static_cast<DataType>(context->GetDynamicInputDataType(irIndex, member));
    }
}

/// Reads the shapes and dtypes of an input list for tiling.
template <typename Context>
void ReadTensors(const Context* context, size_t irIndex, ListArgument& list)
{
    ReadShapes(context, irIndex, list);
    for (size_t member = 0; member < list.elements.size(); ++member) {
        ReadDtype(context->GetDynamicInputDesc(irIndex, member), list.elements[member]);
    }
}

/// Reads the shape and dtype of an output for tiling; an optional output may be absent.
template <typename Context>
void ReadOutput(const Context* context, size_t irIndex, Argument& output)
{
    if (OutputCount(context, irIndex) != 0) {
        ReadShape(context->GetOutputShape(OutputStart(context, irIndex)), output);
        ReadDtype(context->GetOutputDesc(OutputStart(context, irIndex)), output);
    }
}

template <typename Context>
void ReadOutput(const Context* context, size_t irIndex, ListArgument& list)
{
    Resize(list, OutputCount(context, irIndex));
    for (size_t member = 0; member < list.elements.size(); ++member) {
        ReadShape(context->GetOutputShape(OutputStart(context, irIndex) + member), list.elements[member]);
        ReadDtype(context->GetOutputDesc(OutputStart(context, irIndex) + member), list.elements[member]);
    }
}

/// Sets the dtype of all tensors of an output.
template <typename Context>
ge::graphStatus SetDtypes(Context* context, size_t irIndex, ge::DataType dtype)
{
    for (size_t member = 0; member < OutputCount(context, irIndex); ++member) {
        if (context->SetOutputDataType(OutputStart(context, irIndex) + member, dtype) != ge::GRAPH_SUCCESS) {
            return ge::GRAPH_FAILED;
        }
    }
    return ge::GRAPH_SUCCESS;
}

inline bool AreShapesKnown(const ListArgument& list)
{
    for (const Argument& tensor : list.elements) {
        for (const int64_t dim : tensor.dims) {
            if (dim < 0) {
                return false;
            }
        }
    }
    return true;
}

inline std::vector<std::vector<int64_t>> ShapesOf(const ListArgument& list)
{
    std::vector<std::vector<int64_t>> shapes;
    for (const Argument& tensor : list.elements) {
        shapes.push_back(tensor.dims);
    }
    return shapes;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_LIST_CONTEXT_H
