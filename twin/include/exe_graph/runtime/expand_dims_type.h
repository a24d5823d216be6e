// The dims that the storage shape has in addition to the origin shape.
#ifndef EXE_GRAPH_RUNTIME_EXPAND_DIMS_TYPE_H
#define EXE_GRAPH_RUNTIME_EXPAND_DIMS_TYPE_H

#include <cstdint>

namespace gert {
class ExpandDimsType {
public:
    ExpandDimsType() = default;
    explicit ExpandDimsType(const int64_t& reshape_type_mask) : mask_(static_cast<uint64_t>(reshape_type_mask)) {}

    bool operator==(const ExpandDimsType& other) const { return mask_ == other.mask_; }

private:
    uint64_t mask_ = 0;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_EXPAND_DIMS_TYPE_H
