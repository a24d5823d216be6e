// The origin shape (in the graph) and the storage shape (in memory) of a tensor.
#ifndef EXE_GRAPH_RUNTIME_STORAGE_SHAPE_H
#define EXE_GRAPH_RUNTIME_STORAGE_SHAPE_H

#include "exe_graph/runtime/shape.h"

namespace gert {
class StorageShape {
public:
    StorageShape() = default;
    StorageShape(const std::initializer_list<int64_t>& origin_shape,
                 const std::initializer_list<int64_t>& storage_shape)
        : originShape_(origin_shape), storageShape_(storage_shape)
    {
    }

    const Shape& GetOriginShape() const { return originShape_; }
    const Shape& GetStorageShape() const { return storageShape_; }
    Shape& MutableOriginShape() { return originShape_; }
    Shape& MutableStorageShape() { return storageShape_; }

    bool operator==(const StorageShape& other) const
    {
        return originShape_ == other.originShape_ && storageShape_ == other.storageShape_;
    }
    bool operator!=(const StorageShape& other) const { return !(*this == other); }

private:
    Shape originShape_;
    Shape storageShape_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_STORAGE_SHAPE_H
