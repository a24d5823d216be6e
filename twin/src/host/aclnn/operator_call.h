// One operator call: the arguments and results of its host functions.
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

/// One tensor of a parameter in a call.
struct Instance {
    gert::Shape origin;
    gert::Shape storage;
    ge::DataType dtype = ge::DT_UNDEFINED;
    ge::Format format = ge::FORMAT_ND;
    const void* values = nullptr;  ///< host memory, if the values are known on the host
    size_t valueBytes = 0;
    std::optional<gert::Shape> lowest;   ///< ends of the shape range, if known from a graph
    std::optional<gert::Shape> highest;  ///< -1: no upper limit
};

/// The instances of one IR parameter; empty for an absent optional parameter.
using Instances = std::vector<Instance>;

/// An attribute in the memory layout that RuntimeAttrs exposes.
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

/// The ends of the shape range of a tensor. Range inference reads and sets them.
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
    std::unique_ptr<uint8_t[]> buffer;  ///< header and content of the tiling data

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

/// Builds the call. Returns null and the reason if it does not match the definition. Missing attributes have their
/// default. Host functions receive the values of an input only if the operator declared that it depends on them.
std::unique_ptr<OperatorCall> MakeCall(const Registered& operation, const std::vector<Instances>& inputs,
                                       const std::vector<Instances>& outputs,
                                       const std::vector<std::optional<AttributeValue>>& attributes,
                                       const SocFigures& soc, std::string& problem);

/// Runs the registered function on the call. Returns false and the reason if no function exists, or if it rejects the
/// call or misbehaves.
bool RunInferShape(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunInferShapeRange(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunInferDataType(const Registered& operation, OperatorCall& call, std::string& problem);
bool RunTiling(const Registered& operation, OperatorCall& call, std::string& problem);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACLNN_OPERATOR_CALL_H
