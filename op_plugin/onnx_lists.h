#ifndef OPFORGE_OP_PLUGIN_ONNX_LISTS_H
#define OPFORGE_OP_PLUGIN_ONNX_LISTS_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "onnx_node.h"

namespace opforge {

/// The inputs or the outputs of an operator: the single tensors, and the lists of tensors.
struct NodeTensors {
    const char* kind;
    size_t singles;
    size_t lists;
};

/// Appends the number of tensors in the only list, or checks the given numbers from `first` on.
inline bool CompleteSizes(size_t count, const NodeTensors& tensors, bool isGiven, size_t first,
                          std::vector<int64_t>& sizes, std::string& error)
{
    if (!isGiven && tensors.lists > 1) {
        error = "got no attribute 'list_sizes', expected the number of tensors in each list";
        return false;
    }
    if (!isGiven && tensors.lists == 1) {
        sizes.push_back(static_cast<int64_t>(count) - static_cast<int64_t>(tensors.singles));
    }
    auto expected = static_cast<int64_t>(tensors.singles);
    for (size_t list = 0; list < tensors.lists; ++list) {
        const int64_t size = sizes[first + list];
        expected = size < 0 ? -1 : expected + size;
        if (expected < 0) {
            break;
        }
    }
    if (expected != static_cast<int64_t>(count)) {
        error = "got " + std::to_string(count) + " " + tensors.kind + ", expected " +
                (expected < 0 ? "at least " + std::to_string(tensors.singles) : std::to_string(expected));
        return false;
    }
    return true;
}

/// Completes the attribute `list_sizes` of a node: the number of tensors in each input list, then in each output list.
inline bool CompleteListSizes(const OnnxNode& node, const NodeTensors& inputs, const NodeTensors& outputs,
                              std::vector<int64_t>& sizes, std::string& error)
{
    const bool isGiven = !sizes.empty();
    if (isGiven && sizes.size() != inputs.lists + outputs.lists) {
        error = "got " + std::to_string(sizes.size()) + " numbers in 'list_sizes', expected " +
                std::to_string(inputs.lists + outputs.lists);
        return false;
    }
    return CompleteSizes(node.AllInputs(), inputs, isGiven, 0, sizes, error) &&
           CompleteSizes(node.AllOutputs(), outputs, isGiven, inputs.lists, sizes, error);
}

}  // namespace opforge

#endif  // OPFORGE_OP_PLUGIN_ONNX_LISTS_H
