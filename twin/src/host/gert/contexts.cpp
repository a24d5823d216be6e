// The contexts of host functions: getters on an OperatorCall.
#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/infer_shape_range_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "host/acl/errors.h"
#include "host/aclnn/operator_call.h"
#include "host/gert/platform.h"
#include "kernel/exec/text.h"

namespace gert {

using opforge::twin::host::AttributeType;
using opforge::twin::host::OperatorCall;
using opforge::twin::host::ReportMisuse;
using opforge::twin::host::TensorSlot;
using opforge::twin::kernel::Text;

namespace {

const TensorSlot* InputOf(const OperatorCall& call, size_t index)
{
    return index < call.inputs.size() ? &call.inputs[index] : nullptr;
}

const TensorSlot* OutputOf(const OperatorCall& call, size_t index)
{
    return index < call.outputs.size() ? &call.outputs[index] : nullptr;
}

const TensorSlot* IrInputOf(const OperatorCall& call, size_t irIndex, size_t relative)
{
    if (irIndex >= call.irInputs.size() || relative >= call.irInputs[irIndex].GetInstanceNum()) {
        return nullptr;
    }
    return InputOf(call, call.irInputs[irIndex].GetInstanceStart() + relative);
}

const CompileTimeTensorDesc* DescriptionOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->description;
}

const Tensor* TensorOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->tensor;
}

const StorageShape* StorageShapeOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->tensor.GetShape();
}

const Shape* ShapeOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->tensor.GetOriginShape();
}

const Range<Shape>* ShapeRangeOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->ranges->shape;
}

const TensorRange* TensorRangeOf(const TensorSlot* slot)
{
    return slot == nullptr ? nullptr : &slot->ranges->tensor;
}

ge::DataType DtypeOf(const TensorSlot* slot)
{
    return slot == nullptr ? ge::DT_UNDEFINED : slot->description.GetDataType();
}

}  // namespace

const CompileTimeTensorDesc* ExtendedKernelContext::GetInputDesc(const size_t index) const
{
    return DescriptionOf(InputOf(call_, index));
}

const CompileTimeTensorDesc* ExtendedKernelContext::GetOptionalInputDesc(const size_t ir_index) const
{
    return GetDynamicInputDesc(ir_index, 0);
}

const CompileTimeTensorDesc* ExtendedKernelContext::GetRequiredInputDesc(const size_t ir_index) const
{
    return GetDynamicInputDesc(ir_index, 0);
}

const CompileTimeTensorDesc* ExtendedKernelContext::GetDynamicInputDesc(const size_t ir_index,
                                                                        const size_t relative_index) const
{
    return DescriptionOf(IrInputOf(call_, ir_index, relative_index));
}

const CompileTimeTensorDesc* ExtendedKernelContext::GetOutputDesc(const size_t index) const
{
    return DescriptionOf(OutputOf(call_, index));
}

const AnchorInstanceInfo* ExtendedKernelContext::GetIrInputInstanceInfo(const size_t ir_index) const
{
    return ir_index < call_.irInputs.size() ? &call_.irInputs[ir_index] : nullptr;
}

const AnchorInstanceInfo* ExtendedKernelContext::GetIrOutputInstanceInfo(const size_t ir_index) const
{
    return ir_index < call_.irOutputs.size() ? &call_.irOutputs[ir_index] : nullptr;
}

size_t ExtendedKernelContext::GetComputeNodeInputNum() const
{
    return call_.inputs.size();
}

size_t ExtendedKernelContext::GetComputeNodeOutputNum() const
{
    return call_.outputs.size();
}

const RuntimeAttrs* ExtendedKernelContext::GetAttrs() const
{
    return &call_.runtimeAttributes;
}

const ge::char_t* ExtendedKernelContext::GetNodeType() const
{
    return call_.opType.c_str();
}

const ge::char_t* ExtendedKernelContext::GetNodeName() const
{
    return call_.opType.c_str();
}

const ge::char_t* ExtendedKernelContext::GetKernelName() const
{
    return call_.opType.c_str();
}

const ge::char_t* ExtendedKernelContext::GetKernelType() const
{
    return call_.opType.c_str();
}

size_t RuntimeAttrs::GetAttrNum() const
{
    return call_->attributes.size();
}

const void* RuntimeAttrs::Find(size_t index, AttributeType type) const
{
    if (index >= call_->attributes.size()) {
        return nullptr;
    }
    const auto& slot = call_->attributes[index];
    if (slot.Type() != type) {
        ReportMisuse(Text("attribute ", index, " is ", NameOf(slot.Type()), ", it was read as ", NameOf(type)));
        return nullptr;
    }
    return slot.Pointer();
}

const void* RuntimeAttrs::FindList(size_t index) const
{
    if (index >= call_->attributes.size()) {
        return nullptr;
    }
    const auto& slot = call_->attributes[index];
    if (slot.Type() != AttributeType::kListInt && slot.Type() != AttributeType::kListFloat &&
        slot.Type() != AttributeType::kListBool) {
        ReportMisuse(Text("attribute ", index, " is ", NameOf(slot.Type()), ", it was read as a list"));
        return nullptr;
    }
    return slot.Pointer();
}

const Range<Shape>* InferShapeRangeContext::GetInputShapeRange(const size_t index) const
{
    return ShapeRangeOf(InputOf(call_, index));
}

const TensorRange* InferShapeRangeContext::GetInputTensorRange(const size_t index) const
{
    return TensorRangeOf(InputOf(call_, index));
}

const TensorRange* InferShapeRangeContext::GetOptionalInputTensorRange(const size_t ir_index) const
{
    return GetDynamicInputTensorRange(ir_index, 0);
}

const Range<Shape>* InferShapeRangeContext::GetRequiredInputShapeRange(const size_t ir_index) const
{
    return GetDynamicInputShapeRange(ir_index, 0);
}

const TensorRange* InferShapeRangeContext::GetRequiredInputTensorRange(const size_t ir_index) const
{
    return GetDynamicInputTensorRange(ir_index, 0);
}

const TensorRange* InferShapeRangeContext::GetDynamicInputTensorRange(const size_t ir_index,
                                                                      const size_t relative_index) const
{
    return TensorRangeOf(IrInputOf(call_, ir_index, relative_index));
}

const Range<Shape>* InferShapeRangeContext::GetOptionalInputShapeRange(const size_t ir_index) const
{
    return GetDynamicInputShapeRange(ir_index, 0);
}

const Range<Shape>* InferShapeRangeContext::GetDynamicInputShapeRange(const size_t ir_index,
                                                                      const size_t relative_index) const
{
    return ShapeRangeOf(IrInputOf(call_, ir_index, relative_index));
}

Range<Shape>* InferShapeRangeContext::GetOutputShapeRange(const size_t index)
{
    return index < call_.outputs.size() ? &call_.outputs[index].ranges->shape : nullptr;
}

const Shape* InferShapeContext::GetInputShape(const size_t index) const
{
    return ShapeOf(InputOf(call_, index));
}

const Tensor* InferShapeContext::GetInputTensor(const size_t index) const
{
    return TensorOf(InputOf(call_, index));
}

const Tensor* InferShapeContext::GetOptionalInputTensor(const size_t ir_index) const
{
    return GetDynamicInputTensor(ir_index, 0);
}

const Shape* InferShapeContext::GetOptionalInputShape(const size_t ir_index) const
{
    return GetDynamicInputShape(ir_index, 0);
}

const Shape* InferShapeContext::GetDynamicInputShape(const size_t ir_index, const size_t relative_index) const
{
    return ShapeOf(IrInputOf(call_, ir_index, relative_index));
}

const Tensor* InferShapeContext::GetDynamicInputTensor(const size_t ir_index, const size_t relative_index) const
{
    return TensorOf(IrInputOf(call_, ir_index, relative_index));
}

const Tensor* InferShapeContext::GetRequiredInputTensor(const size_t ir_index) const
{
    return GetDynamicInputTensor(ir_index, 0);
}

const Shape* InferShapeContext::GetRequiredInputShape(const size_t ir_index) const
{
    return GetDynamicInputShape(ir_index, 0);
}

Shape* InferShapeContext::GetOutputShape(const size_t index)
{
    return index < call_.outputs.size() ? &call_.outputs[index].tensor.MutableOriginShape() : nullptr;
}

ge::DataType InferDataTypeContext::GetInputDataType(const size_t index) const
{
    return DtypeOf(InputOf(call_, index));
}

ge::DataType InferDataTypeContext::GetOptionalInputDataType(const size_t ir_index) const
{
    return GetDynamicInputDataType(ir_index, 0);
}

ge::DataType InferDataTypeContext::GetDynamicInputDataType(const size_t ir_index, const size_t relative_index) const
{
    return DtypeOf(IrInputOf(call_, ir_index, relative_index));
}

ge::DataType InferDataTypeContext::GetRequiredInputDataType(const size_t ir_index) const
{
    return GetDynamicInputDataType(ir_index, 0);
}

ge::DataType InferDataTypeContext::GetOutputDataType(const size_t index) const
{
    return DtypeOf(OutputOf(call_, index));
}

ge::graphStatus InferDataTypeContext::SetOutputDataType(const size_t index, const ge::DataType datatype)
{
    if (index >= call_.outputs.size()) {
        return ge::GRAPH_FAILED;
    }
    call_.outputs[index].description.SetDataType(datatype);
    return ge::GRAPH_SUCCESS;
}

const void* TilingContext::GetCompileInfo() const
{
    return nullptr;
}

fe::PlatFormInfos* TilingContext::GetPlatformInfo() const
{
    return opforge::twin::host::PlatformOf(*call_.soc);
}

const StorageShape* TilingContext::GetInputShape(const size_t index) const
{
    return StorageShapeOf(InputOf(call_, index));
}

const Tensor* TilingContext::GetInputTensor(const size_t index) const
{
    return TensorOf(InputOf(call_, index));
}

const Tensor* TilingContext::GetOptionalInputTensor(const size_t ir_index) const
{
    return GetDynamicInputTensor(ir_index, 0);
}

const Tensor* TilingContext::GetRequiredInputTensor(const size_t ir_index) const
{
    return GetDynamicInputTensor(ir_index, 0);
}

const Tensor* TilingContext::GetDynamicInputTensor(const size_t ir_index, const size_t relative_index) const
{
    return TensorOf(IrInputOf(call_, ir_index, relative_index));
}

const StorageShape* TilingContext::GetOptionalInputShape(const size_t ir_index) const
{
    return GetDynamicInputShape(ir_index, 0);
}

const StorageShape* TilingContext::GetRequiredInputShape(const size_t ir_index) const
{
    return GetDynamicInputShape(ir_index, 0);
}

const StorageShape* TilingContext::GetDynamicInputShape(const size_t ir_index, const size_t relative_index) const
{
    return StorageShapeOf(IrInputOf(call_, ir_index, relative_index));
}

const StorageShape* TilingContext::GetOutputShape(const size_t index) const
{
    return StorageShapeOf(OutputOf(call_, index));
}

int32_t TilingContext::GetDeterministic() const
{
    return 0;
}

ge::graphStatus TilingContext::SetTilingKey(const uint64_t tiling_key)
{
    call_.tiling.key = tiling_key;
    return ge::GRAPH_SUCCESS;
}

uint64_t TilingContext::GetTilingKey() const
{
    return call_.tiling.key;
}

ge::graphStatus TilingContext::SetBlockDim(const uint32_t block_dim)
{
    call_.tiling.blockDim = block_dim;
    return ge::GRAPH_SUCCESS;
}

uint32_t TilingContext::GetBlockDim() const
{
    return call_.tiling.blockDim;
}

ge::graphStatus TilingContext::SetScheduleMode(const uint32_t schedule_mode)
{
    call_.tiling.scheduleMode = schedule_mode;
    return ge::GRAPH_SUCCESS;
}

uint32_t TilingContext::GetScheduleMode() const
{
    return call_.tiling.scheduleMode;
}

ge::graphStatus TilingContext::SetTilingCond(int32_t tiling_cond)
{
    call_.tiling.condition = tiling_cond;
    return ge::GRAPH_SUCCESS;
}

int32_t TilingContext::GetTilingCond() const
{
    return call_.tiling.condition;
}

ge::graphStatus TilingContext::SetNeedAtomic(const bool atomic)
{
    call_.tiling.needsAtomic = atomic;
    return ge::GRAPH_SUCCESS;
}

bool TilingContext::NeedAtomic() const
{
    return call_.tiling.needsAtomic;
}

ge::graphStatus TilingContext::SetLocalMemorySize(const uint32_t local_memory_size)
{
    call_.tiling.localMemoryBytes = local_memory_size;
    return ge::GRAPH_SUCCESS;
}

uint32_t TilingContext::GetLocalMemorySize() const
{
    return call_.tiling.localMemoryBytes;
}

TilingData* TilingContext::GetRawTilingData()
{
    return &call_.tiling.Data();
}

void* TilingContext::ClaimTilingData(size_t size)
{
    TilingData& data = call_.tiling.Data();
    if (size > data.GetCapacity()) {
        return nullptr;
    }
    data.SetDataSize(size);
    return data.GetData();
}

size_t* TilingContext::GetWorkspaceSizes(const size_t workspace_count)
{
    if (call_.tiling.workspaces.size() < workspace_count) {
        call_.tiling.workspaces.resize(workspace_count, 0);
    }
    return call_.tiling.workspaces.data();
}

size_t TilingContext::GetWorkspaceNum() const
{
    return call_.tiling.workspaces.size();
}

}  // namespace gert
