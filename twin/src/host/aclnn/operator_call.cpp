#include "host/aclnn/operator_call.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "host/gert/access.h"
#include "host/acl/errors.h"
#include "host/ge/names.h"
#include "kernel/exec/text.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

template <typename T>
std::unique_ptr<uint8_t[]> Block(const std::vector<T>& values)
{
    using Element = std::conditional_t<std::is_same_v<T, bool>, bool, T>;
    std::unique_ptr<uint8_t[]> block = gert::ContinuousVector::Create<Element>(values.size());
    auto* head = reinterpret_cast<gert::TypedContinuousVector<Element>*>(block.get());
    head->SetSize(values.size());
    std::copy(values.begin(), values.end(), head->MutableData());
    return block;
}

std::unique_ptr<uint8_t[]> Bytes(const void* data, size_t size)
{
    std::unique_ptr<uint8_t[]> block(new uint8_t[size]);
    std::memcpy(block.get(), data, size);
    return block;
}

/// Sets one end of a shape range. If it is not given, known dims are fixed and unknown dims are `unknown`.
void SetRange(const gert::Shape& shape, const std::optional<gert::Shape>& given, gert::StorageShape& end,
              int64_t unknown)
{
    gert::Shape dims = given.value_or(shape);
    for (size_t i = 0; !given && i < dims.GetDimNum(); ++i) {
        dims.SetDim(i, dims.GetDim(i) == ge::UNKNOWN_DIM ? unknown : dims.GetDim(i));
    }
    end.MutableOriginShape() = dims;
    end.MutableStorageShape() = dims;
}

bool AddInstances(const Parameter& parameter, const Instances& instances, bool isReadable,
                  std::deque<TensorSlot>& slots, std::vector<gert::AnchorInstanceInfo>& anchors, std::string& problem)
{
    const bool isList = parameter.kind == ParameterKind::kDynamic;
    if (instances.empty() && parameter.kind == ParameterKind::kRequired) {
        problem = Text(parameter.name, ": got nothing, expected a tensor");
        return false;
    }
    if (instances.size() > 1 && !isList) {
        problem = Text(parameter.name, ": got a list of ", instances.size(), " tensors, expected one tensor");
        return false;
    }
    anchors.emplace_back(slots.size(), instances.size());
    for (const Instance& instance : instances) {
        TensorSlot& slot = slots.emplace_back();
        slot.description.SetDataType(instance.dtype);
        slot.description.SetOriginFormat(instance.format);
        slot.description.SetStorageFormat(instance.format);
        slot.tensor.SetDataType(instance.dtype);
        slot.tensor.SetOriginFormat(instance.format);
        slot.tensor.SetStorageFormat(instance.format);
        slot.tensor.MutableOriginShape() = instance.origin;
        slot.tensor.MutableStorageShape() = instance.storage;
        const bool hasValues = isReadable && instance.values != nullptr;
        slot.tensor.SetPlacement(hasValues ? gert::kOnHost : gert::kOnDeviceHbm);
        slot.tensor.MutableTensorData().SetAddr(hasValues ? const_cast<void*>(instance.values) : nullptr, nullptr);
        slot.tensor.SetSize(instance.valueBytes);
        slot.ranges = std::make_unique<TensorRanges>();
        for (gert::Tensor* end : {&slot.ranges->lowest, &slot.ranges->highest}) {
            end->SetDataType(instance.dtype);
            end->SetPlacement(slot.tensor.GetPlacement());
            end->MutableTensorData().SetAddr(slot.tensor.GetAddr(), nullptr);
            end->SetSize(instance.valueBytes);
        }
        SetRange(instance.origin, instance.lowest, slot.ranges->lowest.GetShape(), 0);
        SetRange(instance.origin, instance.highest, slot.ranges->highest.GetShape(), ge::UNKNOWN_DIM);
    }
    return true;
}

bool AddAttributes(const Definition& definition, const std::vector<std::optional<AttributeValue>>& given,
                   OperatorCall& call, std::string& problem)
{
    if (given.size() > definition.attributes.size()) {
        problem = Text("got ", given.size(), " attributes, expected ", definition.attributes.size());
        return false;
    }
    for (size_t index = 0; index < definition.attributes.size(); ++index) {
        const Attribute& attribute = definition.attributes[index];
        const bool isGiven = index < given.size() && given[index].has_value();
        if (!isGiven && attribute.required) {
            problem = Text("attribute ", attribute.name, " is required, got nothing");
            return false;
        }
        const AttributeValue& value = isGiven ? *given[index] : attribute.value;
        if (TypeOf(value) != attribute.type) {
            problem = Text("attribute ", attribute.name, ": got ", NameOf(TypeOf(value)), ", expected ",
                           NameOf(attribute.type));
            return false;
        }
        call.attributes.emplace_back(value);
    }
    return true;
}

/// Calls a host function of the operator. Returns false and the reason if it rejects the call or misbehaves.
template <typename Context>
bool Run(const char* what, ge::graphStatus (*function)(Context*), OperatorCall& call, std::string& problem)
{
    auto context = Access::MakeContext<Context>(call);
    TakeMisuse();
    const size_t before = ErrorLength();
    const ge::graphStatus status = function(&context);
    const std::string misuse = TakeMisuse();
    if (!misuse.empty()) {
        problem = Text(call.opType, ": the ", what, " function made a mistake: ", misuse);
        return false;
    }
    if (status != ge::GRAPH_SUCCESS) {
        const std::string said = TakeErrorsBehind(before);
        problem = Text(call.opType, ": the ", what, " function refused the call (status ", status,
                       "): ", said.empty() ? "it logged no reason; what it prints is on stderr" : said);
        return false;
    }
    return true;
}

bool CheckTiling(const OperatorCall& call, std::string& problem)
{
    const gert::TilingData& data = call.tiling.Data();
    if (call.tiling.blockDim == 0) {
        problem = Text(call.opType, ": the tiling function set no block dim; expected SetBlockDim with at least 1");
    } else if (data.GetDataSize() > data.GetCapacity()) {
        problem = Text(call.opType, ": the tiling data has ", data.GetDataSize(), " bytes, the operator registered ",
                       data.GetCapacity(), "; see Tiling(function, size)");
    }
    return problem.empty();
}

}  // namespace

AttributeSlot::AttributeSlot(const AttributeValue& value) : type_(TypeOf(value))
{
    switch (type_) {
        case AttributeType::kInt:
            block_ = Bytes(&std::get<int64_t>(value), sizeof(int64_t));
            break;
        case AttributeType::kFloat:
            block_ = Bytes(&std::get<float>(value), sizeof(float));
            break;
        case AttributeType::kBool:
            block_ = Bytes(&std::get<bool>(value), sizeof(bool));
            break;
        case AttributeType::kString:
            block_ = Bytes(std::get<std::string>(value).c_str(), std::get<std::string>(value).size() + 1);
            break;
        case AttributeType::kListInt:
            block_ = Block(std::get<std::vector<int64_t>>(value));
            break;
        case AttributeType::kListFloat:
            block_ = Block(std::get<std::vector<float>>(value));
            break;
        case AttributeType::kListBool:
            block_ = Block(std::get<std::vector<bool>>(value));
            break;
        case AttributeType::kListListInt: {
            const auto& lists = std::get<std::vector<std::vector<int64_t>>>(value);
            lists_ = std::make_unique<gert::ContinuousVectorVector>();
            lists_->Init(lists.size());
            for (const std::vector<int64_t>& list : lists) {
                gert::ContinuousVector* inner = lists_->Add<int64_t>(list.size());
                inner->SetSize(list.size());
                std::copy(list.begin(), list.end(), static_cast<int64_t*>(inner->MutableData()));
            }
            break;
        }
    }
}

const void* AttributeSlot::Pointer() const
{
    return lists_ != nullptr ? static_cast<const void*>(lists_.get()) : block_.get();
}

std::unique_ptr<OperatorCall> MakeCall(const Registered& operation, const std::vector<Instances>& inputs,
                                       const std::vector<Instances>& outputs,
                                       const std::vector<std::optional<AttributeValue>>& attributes,
                                       const SocFigures& soc, std::string& problem)
{
    const Definition& definition = *operation.definition;
    const Implementation& implementation = *operation.implementation;
    if (inputs.size() != definition.inputs.size() || outputs.size() != definition.outputs.size()) {
        problem =
            Text(operation.opType, ": got ", inputs.size(), " inputs and ", outputs.size(), " outputs, expected ",
                 definition.inputs.size(), " and ", definition.outputs.size(), " (an absent optional one is nullptr)");
        return nullptr;
    }
    auto call = std::make_unique<OperatorCall>();
    call->opType = operation.opType;
    call->soc = &soc;
    Access::SetCall(call->runtimeAttributes, *call);
    bool fits = true;
    for (size_t index = 0; fits && index < inputs.size(); ++index) {
        const auto irIndex = static_cast<int32_t>(index);
        const bool isReadable = definition.inputs[index].valueDepend ||
                                implementation.dataDependent.count(irIndex) != 0 ||
                                implementation.tilingDataDependent.count(irIndex) != 0;
        fits = AddInstances(definition.inputs[index], inputs[index], isReadable, call->inputs, call->irInputs, problem);
    }
    for (size_t index = 0; fits && index < outputs.size(); ++index) {
        fits = AddInstances(definition.outputs[index], outputs[index], false, call->outputs, call->irOutputs, problem);
    }
    if (!fits || !AddAttributes(definition, attributes, *call, problem)) {
        problem = Text(operation.opType, ": ", problem);
        return nullptr;
    }
    return call;
}

bool RunInferShape(const Registered& operation, OperatorCall& call, std::string& problem)
{
    if (operation.implementation->inferShape == nullptr) {
        problem = Text(call.opType, ": no shape inference is registered (IMPL_OP_INFERSHAPE)");
        return false;
    }
    return Run("shape inference", operation.implementation->inferShape, call, problem);
}

bool RunInferShapeRange(const Registered& operation, OperatorCall& call, std::string& problem)
{
    if (operation.implementation->inferShapeRange == nullptr) {
        problem = Text(call.opType, ": no inference of shape ranges is registered (InferShapeRange)");
        return false;
    }
    for (TensorSlot& output : call.outputs) {
        output.ranges = std::make_unique<TensorRanges>();
    }
    return Run("shape range inference", operation.implementation->inferShapeRange, call, problem);
}

bool RunInferDataType(const Registered& operation, OperatorCall& call, std::string& problem)
{
    if (operation.implementation->inferDataType != nullptr) {
        return Run("dtype inference", operation.implementation->inferDataType, call, problem);
    }
    if (operation.implementation->hasDtypeOfFirstInput && !call.inputs.empty()) {
        auto context = Access::MakeContext<gert::InferDataTypeContext>(call);
        for (size_t index = 0; index < call.outputs.size(); ++index) {
            context.SetOutputDataType(index, context.GetInputDataType(0));
        }
        return true;
    }
    problem = Text(call.opType, ": no dtype inference is registered (IMPL_OP_INFERSHAPE)");
    return false;
}

bool RunTiling(const Registered& operation, OperatorCall& call, std::string& problem)
{
    if (operation.implementation->tiling == nullptr) {
        problem = Text(call.opType, ": no tiling function is registered (IMPL_OP_OPTILING)");
        return false;
    }
    call.tiling.buffer = gert::TilingData::CreateCap(operation.implementation->tilingDataCapacity);
    return Run("tiling", operation.implementation->tiling, call, problem) && CheckTiling(call, problem);
}

}  // namespace opforge::twin::host
