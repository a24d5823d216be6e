// Static information about a node: its inputs, outputs and attributes.
#ifndef EXE_GRAPH_RUNTIME_COMPUTE_NODE_INFO_H
#define EXE_GRAPH_RUNTIME_COMPUTE_NODE_INFO_H

#include <cstddef>

#include "exe_graph/runtime/storage_format.h"
#include "graph/types.h"

namespace gert {
/// The instances of one input or output of the IR; zero for an absent optional one.
class AnchorInstanceInfo {
public:
    AnchorInstanceInfo() = default;
    AnchorInstanceInfo(const size_t instance_start, const size_t instantiation_num)
        : start_(instance_start), count_(instantiation_num)
    {
    }

    size_t GetInstanceNum() const { return count_; }
    size_t GetInstanceStart() const { return start_; }

private:
    size_t start_ = 0;
    size_t count_ = 0;
};

class CompileTimeTensorDesc {
public:
    ge::DataType GetDataType() const { return dataType_; }
    const StorageFormat& GetFormat() const { return format_; }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
    ExpandDimsType GetExpandDimsType() const { return format_.GetExpandDimsType(); }
    void SetDataType(const ge::DataType data_type) { dataType_ = data_type; }
    void SetStorageFormat(const ge::Format format) { format_.SetStorageFormat(format); }
    void SetOriginFormat(const ge::Format format) { format_.SetOriginFormat(format); }
    void SetExpandDimsType(const ExpandDimsType& expand_dims_type) { format_.SetExpandDimsType(expand_dims_type); }

private:
    ge::DataType dataType_ = ge::DT_UNDEFINED;
    StorageFormat format_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_COMPUTE_NODE_INFO_H
