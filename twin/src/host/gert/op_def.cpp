// The OpDef classes.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "host/gert/access.h"
#include "host/acl/errors.h"
#include "host/gert/registry.h"
#include "kernel/exec/text.h"
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

OpParamDef& OpParamDef::DataTypeList(std::vector<ge::DataType> types)
{
    crossed_ = std::move(types);
    return *this;
}

OpParamDef& OpParamDef::FormatList(std::vector<ge::Format> formats)
{
    (void)formats;  // the tensor format does not select a kernel on the twin
    return *this;
}

OpParamDef& OpParamDef::DataTypeForBinQuery(std::vector<ge::DataType> types)
{
    (void)types;  // only used by a build to name its binaries
    return *this;
}

OpParamDef& OpParamDef::FormatForBinQuery(std::vector<ge::Format> formats)
{
    (void)formats;
    return *this;
}

OpParamDef& OpParamDef::UnknownShapeFormat(std::vector<ge::Format> formats)
{
    (void)formats;  // only used by the graph compiler
    return *this;
}

OpParamDef& OpParamDef::ValueDepend(Option value_depend)
{
    (void)value_depend;  // required or optional: whether the values must be constant at graph compilation
    parameter_.valueDepend = true;
    return *this;
}

OpParamDef& OpParamDef::ValueDepend(Option value_depend, DependScope scope)
{
    (void)scope;
    return ValueDepend(value_depend);
}

// These settings are used by generated aclnn functions and graph compilers. No call depends on them.
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

OpParamDef& OpParamDef::To(const ge::DataType type)
{
    (void)type;
    return *this;
}

OpParamDef& OpParamDef::To(const char* name)
{
    (void)name;
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

ge::AscendString& OpAttrDef::GetName() const
{
    return name_;
}

bool OpAttrDef::IsRequired()
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

/// The parameters of an operator while their columns are computed.
class Columns {
public:
    explicit Columns(const std::vector<const ops::OpParamDef*>& definitions) : definitions_(definitions)
    {
        for (const ops::OpParamDef* definition : definitions_) {
            parameters_.push_back(Access::ParameterOf(*definition));
            count_ = std::max(count_, parameters_.back().dtypes.size());
        }
        for (size_t i = 0; i < definitions_.size(); ++i) {
            Cross(parameters_[i], Access::CrossedBy(*definitions_[i]));
        }
        for (size_t i = 0; i < definitions_.size(); ++i) {
            Follow(parameters_[i], Access::FollowedBy(*definitions_[i]));
        }
    }

    std::vector<Parameter> Slice(size_t begin, size_t end) const
    {
        return {parameters_.begin() + static_cast<std::ptrdiff_t>(begin),
                parameters_.begin() + static_cast<std::ptrdiff_t>(end)};
    }

private:
    /// Repeats every column once for each element of the list.
    void Cross(Parameter& crossed, const std::vector<ge::DataType>& list)
    {
        if (list.empty()) {
            return;
        }
        for (Parameter& parameter : parameters_) {
            std::vector<ge::DataType> repeated;
            for (const ge::DataType dtype : parameter.dtypes) {
                repeated.insert(repeated.end(), list.size(), dtype);
            }
            parameter.dtypes = std::move(repeated);
        }
        crossed.dtypes.clear();
        for (size_t column = 0; column < std::max<size_t>(count_, 1); ++column) {
            crossed.dtypes.insert(crossed.dtypes.end(), list.begin(), list.end());
        }
        count_ = crossed.dtypes.size();
    }

    void Follow(Parameter& follower, const std::string& name)
    {
        for (const Parameter& parameter : parameters_) {
            follower.dtypes = !name.empty() && parameter.name == name ? parameter.dtypes : follower.dtypes;
        }
    }

    std::vector<const ops::OpParamDef*> definitions_;
    std::vector<Parameter> parameters_;
    size_t count_ = 0;
};

}  // namespace

OpDefRegistration::OpDefRegistration(const char* opType, ops::OpDef&& definition, LibraryKind kind)
{
    Definition described;
    described.opType = opType;
    std::vector<const ops::OpParamDef*> parameters;
    for (const auto* group : {&Access::InputsOf(definition), &Access::OutputsOf(definition)}) {
        for (const ops::OpParamDef& parameter : *group) {
            parameters.push_back(&parameter);
        }
    }
    const Columns columns(parameters);
    const size_t inputs = Access::InputsOf(definition).size();
    described.inputs = columns.Slice(0, inputs);
    described.outputs = columns.Slice(inputs, parameters.size());
    for (const ops::OpAttrDef& attribute : Access::AttributesOf(definition)) {
        described.attributes.push_back(Access::AttributeOf(attribute));
    }
    described.socs = Access::SocsOf(definition.AICore());

    Registry& registry = Registry::Instance();
    Implementation& implementation = registry.ImplementationOf(opType);
    if (kind != LibraryKind::kTiling && definition.GetInferShape() != nullptr) {
        implementation.inferShape = definition.GetInferShape();
    }
    if (kind != LibraryKind::kTiling && definition.GetInferShapeRange() != nullptr) {
        implementation.inferShapeRange = definition.GetInferShapeRange();
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
