// REG_OP prototypes and the factory of operators.
#include "opforge_twin/host/prototype.h"

#include <map>
#include <mutex>
#include <utility>

#include "graph/operator_factory.h"
#include "host/gert/access.h"
#include "host/aclnn/operator_node.h"
#include "host/gert/registry.h"
#include "opforge_twin/host/definition.h"

namespace opforge::twin::host {

namespace {

struct Factory {
    std::mutex lock;
    std::map<std::string, PrototypeRegistration::Creator> creators;
};

Factory& TheFactory()
{
    static auto* factory = new Factory();
    return *factory;
}

std::vector<ge::DataType> TypesOf(const ge::TensorType& types)
{
    return Access::Types(types);
}

}  // namespace

struct PrototypeState {
    void AddAttribute(const char* name, AttributeValue value)
    {
        definition.attributes.push_back({name, TypeOf(value), false, std::move(value)});
    }

    Definition definition;
    std::map<std::string, std::vector<ge::DataType>> symbols;
    std::map<std::string, std::string> symbolOf;  ///< parameter name -> symbol that DATATYPE declares later
};

Prototype::Prototype(const char* opType, ge::Operator& target)
    : target_(target), state_(std::make_unique<PrototypeState>())
{
    state_->definition.opType = opType;
}

Prototype::~Prototype() = default;

Prototype& Prototype::AddInput(const char* name, ParameterKind kind, std::vector<ge::DataType> types)
{
    state_->definition.inputs.push_back({name, kind, std::move(types), {}, false});
    if (kind != ParameterKind::kDynamic) {
        Access::Node(target_)->inputs.emplace_back(name, ge::TensorDesc());
    } else {
        Access::Node(target_)->dynamicInputs.emplace(name, 0);
    }
    return *this;
}

Prototype& Prototype::AddOutput(const char* name, ParameterKind kind, std::vector<ge::DataType> types)
{
    state_->definition.outputs.push_back({name, kind, std::move(types), {}, false});
    if (kind != ParameterKind::kDynamic) {
        Access::Node(target_)->outputs.emplace_back(name, ge::TensorDesc());
    } else {
        Access::Node(target_)->dynamicOutputs.emplace(name, 0);
    }
    return *this;
}

Prototype& Prototype::Input(const char* name, const ge::TensorType& types)
{
    return AddInput(name, ParameterKind::kRequired, TypesOf(types));
}

Prototype& Prototype::Input(const char* name, const char* symbol)
{
    state_->symbolOf[name] = symbol;
    return AddInput(name, ParameterKind::kRequired, {});
}

Prototype& Prototype::OptionalInput(const char* name, const ge::TensorType& types)
{
    return AddInput(name, ParameterKind::kOptional, TypesOf(types));
}

Prototype& Prototype::OptionalInput(const char* name, const char* symbol)
{
    state_->symbolOf[name] = symbol;
    return AddInput(name, ParameterKind::kOptional, {});
}

Prototype& Prototype::DynamicInput(const char* name, const ge::TensorType& types)
{
    return AddInput(name, ParameterKind::kDynamic, TypesOf(types));
}

Prototype& Prototype::DynamicInput(const char* name, const char* symbol)
{
    state_->symbolOf[name] = symbol;
    return AddInput(name, ParameterKind::kDynamic, {});
}

Prototype& Prototype::Output(const char* name, const ge::TensorType& types)
{
    return AddOutput(name, ParameterKind::kRequired, TypesOf(types));
}

Prototype& Prototype::Output(const char* name, const char* symbol)
{
    state_->symbolOf[name] = symbol;
    return AddOutput(name, ParameterKind::kRequired, {});
}

Prototype& Prototype::DynamicOutput(const char* name, const ge::TensorType& types)
{
    return AddOutput(name, ParameterKind::kDynamic, TypesOf(types));
}

Prototype& Prototype::DynamicOutput(const char* name, const char* symbol)
{
    state_->symbolOf[name] = symbol;
    return AddOutput(name, ParameterKind::kDynamic, {});
}

Prototype& Prototype::DataType(const char* symbol, const ge::TensorType& types)
{
    state_->symbols[symbol] = TypesOf(types);
    return *this;
}

Prototype& Prototype::RequiredAttribute(const char* name, PrototypeAttribute type)
{
    static const std::map<PrototypeAttribute, AttributeType> types = {
        {PrototypeAttribute::kInt, AttributeType::kInt},
        {PrototypeAttribute::kFloat, AttributeType::kFloat},
        {PrototypeAttribute::kBool, AttributeType::kBool},
        {PrototypeAttribute::kString, AttributeType::kString},
        {PrototypeAttribute::kListInt, AttributeType::kListInt},
        {PrototypeAttribute::kListFloat, AttributeType::kListFloat},
        {PrototypeAttribute::kListBool, AttributeType::kListBool},
        {PrototypeAttribute::kListListInt, AttributeType::kListListInt},
        {PrototypeAttribute::kType, AttributeType::kInt},
    };
    // Other attribute types are stored in graphs only; no host function receives them.
    if (const auto known = types.find(type); known != types.end()) {
        state_->definition.attributes.push_back({name, known->second, true, ZeroOf(known->second)});
    }
    return *this;
}

Prototype& Prototype::IntAttribute(const char* name, int64_t value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::FloatAttribute(const char* name, float value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::BoolAttribute(const char* name, bool value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::StringAttribute(const char* name, const char* value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, std::string(value));
    return *this;
}

Prototype& Prototype::ListIntAttribute(const char* name, const std::vector<int64_t>& value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::ListFloatAttribute(const char* name, const std::vector<float>& value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::ListBoolAttribute(const char* name, const std::vector<bool>& value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::ListListIntAttribute(const char* name, const std::vector<std::vector<int64_t>>& value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, value);
    return *this;
}

Prototype& Prototype::ListStringAttribute(const char* name, const std::vector<std::string>& value)
{
    target_.SetAttr(std::string(name), value);
    return *this;
}

Prototype& Prototype::TypeAttribute(const char* name, ge::DataType value)
{
    target_.SetAttr(name, value);
    state_->AddAttribute(name, static_cast<int64_t>(value));
    return *this;
}

void Prototype::Register()
{
    for (auto* parameters : {&state_->definition.inputs, &state_->definition.outputs}) {
        for (Parameter& parameter : *parameters) {
            const auto symbol = state_->symbolOf.find(parameter.name);
            if (symbol != state_->symbolOf.end()) {
                parameter.dtypes = state_->symbols[symbol->second];
            }
        }
    }
    Registry::Instance().AddPrototype(state_->definition);
}

PrototypeRegistration::PrototypeRegistration(const char* opType, Creator create)
{
    {
        Factory& factory = TheFactory();
        const std::lock_guard<std::mutex> guard(factory.lock);
        factory.creators.emplace(opType, create);
    }
    create(ge::AscendString(opType));  // registers the description before the first operator is created
}

}  // namespace opforge::twin::host

namespace ge {

using opforge::twin::host::Factory;
using opforge::twin::host::TheFactory;

Operator OperatorFactory::CreateOperator(const std::string& operator_name, const std::string& operator_type)
{
    opforge::twin::host::PrototypeRegistration::Creator create = nullptr;
    {
        Factory& factory = TheFactory();
        const std::lock_guard<std::mutex> guard(factory.lock);
        const auto found = factory.creators.find(operator_type);
        if (found == factory.creators.end()) {
            return Operator();
        }
        create = found->second;
    }
    return create(AscendString(operator_name.c_str()));
}

Operator OperatorFactory::CreateOperator(const char_t* const operator_name, const char_t* const operator_type)
{
    return CreateOperator(std::string(operator_name == nullptr ? "" : operator_name),
                          std::string(operator_type == nullptr ? "" : operator_type));
}

graphStatus OperatorFactory::GetOpsTypeList(std::vector<std::string>& all_ops)
{
    Factory& factory = TheFactory();
    const std::lock_guard<std::mutex> guard(factory.lock);
    for (const auto& [type, create] : factory.creators) {
        all_ops.push_back(type);
    }
    return GRAPH_SUCCESS;
}

graphStatus OperatorFactory::GetOpsTypeList(std::vector<AscendString>& all_ops)
{
    std::vector<std::string> types;
    const graphStatus status = GetOpsTypeList(types);
    for (const std::string& type : types) {
        all_ops.emplace_back(type.c_str());
    }
    return status;
}

bool OperatorFactory::IsExistOp(const std::string& operator_type)
{
    Factory& factory = TheFactory();
    const std::lock_guard<std::mutex> guard(factory.lock);
    return factory.creators.count(operator_type) != 0;
}

bool OperatorFactory::IsExistOp(const char_t* const operator_type)
{
    return operator_type != nullptr && IsExistOp(std::string(operator_type));
}

}  // namespace ge
