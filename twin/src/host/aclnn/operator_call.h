// One call of an operator as its host functions see it, and what they answer.
#ifndef OPFORGE_TWIN_HOST_ACLNN_OPERATOR_CALL_H
#define OPFORGE_TWIN_HOST_ACLNN_OPERATOR_CALL_H

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exe_graph/runtime/compute_node_info.h"
#include "exe_graph/runtime/continuous_vector.h"
#include "exe_graph/runtime/infer_shape_range_context.h"
#include "exe_graph/runtime/runtime_attrs.h"
#include "exe_graph/runtime/tensor.h"
#include "exe_graph/runtime/tiling_data.h"
#include "host/gert/registry.h"
#include "kernel/exec/soc.h"
#include "opforge_twin/host/attribute.h"
#include "opforge_twin/host/definition.h"

namespace opforge::twin::host {

/// A tensor that stands for a parameter in a call.
struct Instance {
    gert::Shape origin;
    gert::Shape storage;
    ge::DataType dtype = ge::DT_UNDEFINED;
    ge::Format format = ge::FORMAT_ND;
    const void* values = nullptr;  ///< on the host, if they are known there
    size_t valueBytes = 0;
    std::optional<gert::Shape> lowest;   ///< of the shape's range, where a graph knows it
    std::optional<gert::Shape> highest;  ///< -1 is without end
};

/// The instances of one IR parameter: none for an absent optional one.
using Instances = std::vector<Instance>;

/// An attribute in the memory layout that RuntimeAttrs hands out.
class AttributeSlot {
public:
    explicit AttributeSlot(const AttributeValue& value);

    AttributeType Type() const { return type_; }
    const void* Pointer() const;

private:
    AttributeType type_;
    std::unique_ptr<uint8_t[]> block_;
    std::unique_ptr<gert::ContinuousVectorVector> lists_;
};

/// The ends of what the shape of a tensor may be, as inference of ranges sees and sets them.
struct TensorRanges {
    gert::Tensor lowest;
    gert::Tensor highest;
    gert::Range<gert::Shape> shape{&lowest.MutableOriginShape(), &highest.MutableOriginShape()};
    gert::TensorRange tensor{&lowest, &highest};
};

struct TensorSlot {
    gert::Tensor tensor;
    gert::CompileTimeTensorDesc description;
    std::unique_ptr<TensorRanges> ranges;
};

struct TilingOutcome {
    uint64_t key = 0;
    uint32_t blockDim = 0;
    uint32_t scheduleMode = 0;
    int32_t condition = 0;
    bool needsAtomic = false;
    uint32_t localMemoryBytes = 0;
    std::vector<size_t> workspaces;
    std::unique_ptr<uint8_t[]> buffer;  ///< head and content of the tiling data

    gert::TilingData& Data() const { return *reinterpret_cast<gert::TilingData*>(buffer.get()); }
};

struct OperatorCall {
    std::string opType;
    std::vector<gert::AnchorInstanceInfo> irInputs;
    std::vector<gert::AnchorInstanceInfo> irOutputs;
    std::deque<TensorSlot> inputs;
    std::deque<TensorSlot> outputs;
    std::deque<AttributeSlot> attributes;
    gert::RuntimeAttrs runtimeAttributes;
    const SocFigures* soc = nullptr;
    TilingOutcome tiling;
};

/// Builds the call; null, with the reason, when it does not fit the definition. Attributes that are not given have
/// their default. Values of an input reach the host functions only if the operator declared that it depends on them.
std::unique_ptr<OperatorCall> MakeCall(const Registered& operation, const std::vector<Instances>& inputs,
                                       const std::vector<Instances>& outputs,
                                       const std::vector<std::optional<AttributeValue>>& attributes,
                                       const SocFigures& soc, std::string& problem);

/// Run the registered function on the call. False, with the reason, when there is none, it refuses or misbehaves.
bool RunInferShape(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunInferShapeRange(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunInferDataType(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunTiling(const Registered& operation, OperatorCall& call, std::string& problem);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_OPERATOR_CALL_H
