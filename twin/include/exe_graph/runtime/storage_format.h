// The origin format (in the graph) and the storage format (in memory) of a tensor.
#ifndef EXE_GRAPH_RUNTIME_STORAGE_FORMAT_H
#define EXE_GRAPH_RUNTIME_STORAGE_FORMAT_H

#include "exe_graph/runtime/expand_dims_type.h"
#include "graph/types.h"

namespace gert {
class StorageFormat {
public:
    StorageFormat() = default;
    StorageFormat(const ge::Format origin_format, const ge::Format storage_format,
                  const ExpandDimsType& expand_dims_type)
        : originFormat_(origin_format), storageFormat_(storage_format), expandDimsType_(expand_dims_type)
    {
    }

    ge::Format GetOriginFormat() const { return originFormat_; }
    void SetOriginFormat(const ge::Format origin_format) { originFormat_ = origin_format; }
    ge::Format GetStorageFormat() const { return storageFormat_; }
    void SetStorageFormat(const ge::Format storage_format) { storageFormat_ = storage_format; }
    ExpandDimsType GetExpandDimsType() const { return expandDimsType_; }
    void SetExpandDimsType(const ExpandDimsType& expand_dims_type) { expandDimsType_ = expand_dims_type; }
    ExpandDimsType& MutableExpandDimsType() { return expandDimsType_; }

    bool operator==(const StorageFormat& other) const
    {
        return originFormat_ == other.originFormat_ && storageFormat_ == other.storageFormat_ &&
               expandDimsType_ == other.expandDimsType_;
    }
    bool operator!=(const StorageFormat& other) const { return !(*this == other); }

private:
    ge::Format originFormat_ = ge::FORMAT_ND;
    ge::Format storageFormat_ = ge::FORMAT_ND;
    ExpandDimsType expandDimsType_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_STORAGE_FORMAT_H
