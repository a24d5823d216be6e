// The OpDef language.
#include <utility>

#include "host/access.h"
#include "host/errors.h"
#include "host/registry.h"
#include "kernel/text.h"
#include "register/op_def_registry.h"

namespace ops {

using opforge::twin::host::AttributeValue;
using opforge::twin::host::ParameterKind;

namespace {

const std::string& NameOf(const OpParamDef& parameter)
{
    return opforge::twin::host::Access::ParameterOf(parameter).name;
}
const std::string& NameOf(const OpAttrDef& attribute)
{
    return opforge::twin::host::Access::AttributeOf(attribute).name;
}

template <typename T>
T& FindOrAdd(std::deque<T>& items, const char* name)
{
    for (T& item : items) {
        if (NameOf(item) == name) {
            return item;
        }
    }
    return items.emplace_back(name);
}

}  // namespace

OpParamDef::OpParamDef(const char* name)
{
    parameter_.name = name;
}

OpParamDef& OpParamDef::ParamType(Option param_type)
{
    parameter_.kind = param_type == OPTIONAL  ? ParameterKind::kOptional
                      : param_type == DYNAMIC ? ParameterKind::kDynamic
                                              : ParameterKind::kRequired;
    return *this;
}

OpParamDef& OpParamDef::DataType(std::vector<ge::DataType> types)
{
    parameter_.dtypes = std::move(types);
    return *this;
}

OpParamDef& OpParamDef::Format(std::vector<ge::Format> formats)
{
    parameter_.formats = std::move(formats);
    return *this;
}

OpParamDef& OpParamDef::DataTypeForBinQuery(std::vector<ge::DataType> types)
{
    (void)types;  // how a build names its binaries
    return *this;
}

OpParamDef& OpParamDef::FormatForBinQuery(std::vector<ge::Format> formats)
{
    (void)formats;
    return *this;
}

OpParamDef& OpParamDef::UnknownShapeFormat(std::vector<ge::Format> formats)
{
    (void)formats;  // what the graph compiler chooses from
    return *this;
}

OpParamDef& OpParamDef::ValueDepend(Option value_depend)
{
    (void)value_depend;  // required or optional: whether the values must be constant when a graph is compiled
    parameter_.valueDepend = true;
    return *this;
}

OpParamDef& OpParamDef::ValueDepend(Option value_depend, DependScope scope)
{
    (void)scope;
    return ValueDepend(value_depend);
}

// What generated aclnn functions do with an argument, and what graph compilers read: nothing of it reaches a call.
OpParamDef& OpParamDef::IgnoreContiguous()
{
    return *this;
}
OpParamDef& OpParamDef::AutoContiguous()
{
    return *this;
}
OpParamDef& OpParamDef::Scalar()
{
    return *this;
}
OpParamDef& OpParamDef::ScalarList()
{
    return *this;
}

OpParamDef& OpParamDef::Version(uint32_t version)
{
    (void)version;
    return *this;
}

OpParamDef& OpParamDef::InitValue(uint64_t value)
{
    (void)value;
    return *this;
}

OpParamDef& OpParamDef::Follow(const char* paramName)
{
    followed_ = paramName;
    return *this;
}

OpParamDef& OpParamDef::Follow(const char* paramName, FollowType ftype)
{
    return ftype == FollowType::ALL || ftype == FollowType::DTYPE ? Follow(paramName) : *this;
}

OpParamDef& OpParamDef::Comment(const char* comment)
{
    (void)comment;
    return *this;
}

OpAttrDef::OpAttrDef(const char* name) : name_(name)
{
    attribute_.name = name;
}

OpAttrDef& OpAttrDef::AttrType(Option attr_type)
{
    attribute_.required = attr_type == REQUIRED;
    return *this;
}

OpAttrDef& OpAttrDef::Set(AttributeValue value)
{
    attribute_.type = opforge::twin::host::TypeOf(value);
    attribute_.value = std::move(value);
    return *this;
}

OpAttrDef& OpAttrDef::Bool()
{
    return Set(false);
}
OpAttrDef& OpAttrDef::Bool(bool value)
{
    return Set(value);
}
OpAttrDef& OpAttrDef::Float()
{
    return Set(0.0F);
}
OpAttrDef& OpAttrDef::Float(float value)
{
    return Set(value);
}
OpAttrDef& OpAttrDef::Int()
{
    return Set(int64_t{0});
}
OpAttrDef& OpAttrDef::Int(int64_t value)
{
    return Set(value);
}
OpAttrDef& OpAttrDef::String()
{
    return Set(std::string());
}
OpAttrDef& OpAttrDef::String(const char* value)
{
    return Set(std::string(value));
}
OpAttrDef& OpAttrDef::ListBool()
{
    return Set(std::vector<bool>());
}
OpAttrDef& OpAttrDef::ListBool(std::vector<bool> value)
{
    return Set(std::move(value));
}
OpAttrDef& OpAttrDef::ListFloat()
{
    return Set(std::vector<float>());
}
OpAttrDef& OpAttrDef::ListFloat(std::vector<float> value)
{
    return Set(std::move(value));
}
OpAttrDef& OpAttrDef::ListInt()
{
    return Set(std::vector<int64_t>());
}
OpAttrDef& OpAttrDef::ListInt(std::vector<int64_t> value)
{
    return Set(std::move(value));
}
OpAttrDef& OpAttrDef::ListListInt()
{
    return Set(std::vector<std::vector<int64_t>>());
}
OpAttrDef& OpAttrDef::ListListInt(std::vector<std::vector<int64_t>> value)
{
    return Set(std::move(value));
}

OpAttrDef& OpAttrDef::Version(uint32_t version)
{
    (void)version;
    return *this;
}

OpAttrDef& OpAttrDef::Comment(const char* comment)
{
    (void)comment;
    return *this;
}

ge::AscendString& OpAttrDef::GetName()
{
    return name_;
}

bool OpAttrDef::IsRequired() const
{
    return attribute_.required;
}

OpAICoreConfig::OpAICoreConfig(const char* soc)
{
    (void)soc;
}

OpParamDef& OpAICoreConfig::Input(const char* name)
{
    return FindOrAdd(parameters_, name);
}
OpParamDef& OpAICoreConfig::Output(const char* name)
{
    return FindOrAdd(parameters_, name);
}
OpAICoreConfig& OpAICoreConfig::DynamicCompileStaticFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::DynamicFormatFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::DynamicRankSupportFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::DynamicShapeSupportFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::NeedCheckSupportFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::PrecisionReduceFlag(bool)
{
    return *this;
}
OpAICoreConfig& OpAICoreConfig::ExtendCfgInfo(const char*, const char*)
{
    return *this;
}

OpAICoreDef& OpAICoreDef::SetTiling(gert::OpImplRegisterV2::TilingKernelFunc func)
{
    tiling_ = func;
    return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc)
{
    socs_.emplace_back(soc);
    return *this;
}

OpAICoreDef& OpAICoreDef::AddConfig(const char* soc, OpAICoreConfig& aicore_config)
{
    (void)aicore_config;
    return AddConfig(soc);
}

OpDef::OpDef(const char* type) : type_(type) {}

OpParamDef& OpDef::Input(const char* name)
{
    return FindOrAdd(inputs_, name);
}
OpParamDef& OpDef::Output(const char* name)
{
    return FindOrAdd(outputs_, name);
}
OpAttrDef& OpDef::Attr(const char* name)
{
    return FindOrAdd(attributes_, name);
}

OpDef& OpDef::Comment(CommentSection section, const char* comment)
{
    (void)section;
    (void)comment;
    return *this;
}

OpDef& OpDef::SetInferShape(gert::OpImplRegisterV2::InferShapeKernelFunc func)
{
    inferShape_ = func;
    return *this;
}

OpDef& OpDef::SetInferShapeRange(gert::OpImplRegisterV2::InferShapeRangeKernelFunc func)
{
    inferShapeRange_ = func;
    return *this;
}

OpDef& OpDef::SetInferDataType(gert::OpImplRegisterV2::InferDataTypeKernelFunc func)
{
    inferDataType_ = func;
    return *this;
}

OpDef& OpDef::FormatMatchMode(FormatCheckOption option)
{
    (void)option;
    return *this;
}

OpDef& OpDef::EnableFallBack()
{
    return *this;
}

}  // namespace ops

namespace opforge::twin::host {

namespace {

std::vector<Parameter> ParametersOf(const std::deque<ops::OpParamDef>& definitions,
                                    const std::vector<Parameter>& earlier)
{
    std::vector<Parameter> parameters;
    for (const ops::OpParamDef& definition : definitions) {
        Parameter parameter = Access::ParameterOf(definition);
        for (const std::vector<Parameter>* known :
             std::initializer_list<const std::vector<Parameter>*>{&earlier, &parameters}) {
            for (const Parameter& other : *known) {
                parameter.dtypes = other.name == Access::FollowedBy(definition) ? other.dtypes : parameter.dtypes;
            }
        }
        parameters.push_back(std::move(parameter));
    }
    return parameters;
}

}  // namespace

OpDefRegistration::OpDefRegistration(const char* opType, ops::OpDef&& definition, LibraryKind kind)
{
    Definition described;
    described.opType = opType;
    described.inputs = ParametersOf(Access::InputsOf(definition), {});
    described.outputs = ParametersOf(Access::OutputsOf(definition), described.inputs);
    for (const ops::OpAttrDef& attribute : Access::AttributesOf(definition)) {
        described.attributes.push_back(Access::AttributeOf(attribute));
    }
    described.socs = Access::SocsOf(definition.AICore());

    Registry& registry = Registry::Instance();
    Implementation& implementation = registry.Target().implementations[opType];
    if (kind != LibraryKind::kTiling && definition.GetInferShape() != nullptr) {
        implementation.inferShape = definition.GetInferShape();
    }
    if (kind != LibraryKind::kTiling && definition.GetInferDataType() != nullptr) {
        implementation.inferDataType = definition.GetInferDataType();
    }
    if (kind != LibraryKind::kProto && definition.AICore().GetTiling() != nullptr) {
        implementation.tiling = definition.AICore().GetTiling();
    }
    registry.AddDefinition(std::move(described));
}

}  // namespace opforge::twin::host
