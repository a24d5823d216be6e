// The OpDef classes: inputs, outputs and attributes of an operator type by column, and its supported SoCs.
#ifndef REGISTER_OP_DEF_H
#define REGISTER_OP_DEF_H

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/types.h"
#include "opforge_twin/host/definition.h"
#include "register/op_impl_registry.h"

namespace opforge::twin::host {
struct Access;
}  // namespace opforge::twin::host

namespace ops {
enum Option {
    IGNORE = 0,
    OPTIONAL = 1,
    REQUIRED = 2,
    DYNAMIC = 3,
    VIRTUAL = 4,
};

enum class FormatCheckOption : uint32_t {
    DEFAULT = 0,
    STRICT = 1,
    MAX = 2,
};

enum class DependScope : uint32_t {
    ALL = 0,
    TILING = 1,
    INVALID_SCOPE = 2,
};

enum class FollowType : uint32_t {
    ALL = 0,
    DTYPE = 1,
    FORMAT = 2,
    SHAPE = 3,
    INVALID_TYPE = 4,
};

enum class CommentSection : uint32_t {
    CATEGORY = 0,
    BRIEF = 1,
    CONSTRAINTS = 2,
    RESTRICTIONS = 3,
    SEE = 4,
    THIRDPARTYFWKCOMPAT = 5,
    SECTION_MAX = 6,
};

class OpParamDef {
public:
    explicit OpParamDef(const char* name);

    OpParamDef& ParamType(Option param_type);
    /// Element i of the lists of all parameters is column i.
    OpParamDef& DataType(std::vector<ge::DataType> types);
    OpParamDef& Format(std::vector<ge::Format> formats);
    /// Repeats every column with each element of the list.
    OpParamDef& DataTypeList(std::vector<ge::DataType> types);
    OpParamDef& FormatList(std::vector<ge::Format> formats);
    OpParamDef& DataTypeForBinQuery(std::vector<ge::DataType> types);
    OpParamDef& FormatForBinQuery(std::vector<ge::Format> formats);
    OpParamDef& UnknownShapeFormat(std::vector<ge::Format> formats);
    OpParamDef& ValueDepend(Option value_depend);
    OpParamDef& ValueDepend(Option value_depend, DependScope scope);
    OpParamDef& IgnoreContiguous();
    OpParamDef& AutoContiguous();
    OpParamDef& Scalar();
    OpParamDef& ScalarList();
    OpParamDef& To(const ge::DataType type);
    OpParamDef& To(const char* name);
    OpParamDef& Version(uint32_t version);
    OpParamDef& InitValue(uint64_t value);
    OpParamDef& Follow(const char* paramName);
    OpParamDef& Follow(const char* paramName, FollowType ftype);
    OpParamDef& Comment(const char* comment);

private:
    friend struct opforge::twin::host::Access;

    opforge::twin::host::Parameter parameter_;
    std::string followed_;
    std::vector<ge::DataType> crossed_;
};

class OpAttrDef {
public:
    explicit OpAttrDef(const char* name);

    OpAttrDef& AttrType(Option attr_type);
    OpAttrDef& Bool();
    OpAttrDef& Bool(bool value);
    OpAttrDef& Float();
    OpAttrDef& Float(float value);
    OpAttrDef& Int();
    OpAttrDef& Int(int64_t value);
    OpAttrDef& String();
    OpAttrDef& String(const char* value);
    OpAttrDef& ListBool();
    OpAttrDef& ListBool(std::vector<bool> value);
    OpAttrDef& ListFloat();
    OpAttrDef& ListFloat(std::vector<float> value);
    OpAttrDef& ListInt();
    OpAttrDef& ListInt(std::vector<int64_t> value);
    OpAttrDef& ListListInt();
    OpAttrDef& ListListInt(std::vector<std::vector<int64_t>> value);
    OpAttrDef& Version(uint32_t version);
    OpAttrDef& Comment(const char* comment);
    ge::AscendString& GetName() const;
    bool IsRequired();

private:
    friend struct opforge::twin::host::Access;

    OpAttrDef& Set(opforge::twin::host::AttributeValue value);

    opforge::twin::host::Attribute attribute_;
    mutable ge::AscendString name_;
};

/// Settings for one SoC. They affect only a build; the twin reads none of them.
class OpAICoreConfig {
public:
    OpAICoreConfig() = default;
    explicit OpAICoreConfig(const char* soc);

    OpParamDef& Input(const char* name);
    OpParamDef& Output(const char* name);
    OpAICoreConfig& DynamicCompileStaticFlag(bool flag);
    OpAICoreConfig& DynamicFormatFlag(bool flag);
    OpAICoreConfig& DynamicRankSupportFlag(bool flag);
    OpAICoreConfig& DynamicShapeSupportFlag(bool flag);
    OpAICoreConfig& NeedCheckSupportFlag(bool flag);
    OpAICoreConfig& PrecisionReduceFlag(bool flag);
    OpAICoreConfig& ExtendCfgInfo(const char* key, const char* value);

private:
    std::deque<OpParamDef> parameters_;
};

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(gert::OpImplRegisterV2::TilingKernelFunc func);
    gert::OpImplRegisterV2::TilingKernelFunc& GetTiling() { return tiling_; }
    /// `soc` is the directory name of the SoC: ascend910b, ascend910_93, ...
    OpAICoreDef& AddConfig(const char* soc);
    OpAICoreDef& AddConfig(const char* soc, OpAICoreConfig& aicore_config);

private:
    friend struct opforge::twin::host::Access;

    gert::OpImplRegisterV2::TilingKernelFunc tiling_ = nullptr;
    std::vector<std::string> socs_;
};

class OpDef {
public:
    explicit OpDef(const char* type);
    virtual ~OpDef() = default;

    OpParamDef& Input(const char* name);
    OpParamDef& Output(const char* name);
    OpAttrDef& Attr(const char* name);
    OpDef& Comment(CommentSection section, const char* comment);
    OpDef& SetInferShape(gert::OpImplRegisterV2::InferShapeKernelFunc func);
    OpDef& SetInferShapeRange(gert::OpImplRegisterV2::InferShapeRangeKernelFunc func);
    OpDef& SetInferDataType(gert::OpImplRegisterV2::InferDataTypeKernelFunc func);
    gert::OpImplRegisterV2::InferShapeKernelFunc& GetInferShape() { return inferShape_; }
    gert::OpImplRegisterV2::InferShapeRangeKernelFunc& GetInferShapeRange() { return inferShapeRange_; }
    gert::OpImplRegisterV2::InferDataTypeKernelFunc& GetInferDataType() { return inferDataType_; }
    OpAICoreDef& AICore() { return aiCore_; }
    OpDef& FormatMatchMode(FormatCheckOption option);
    OpDef& EnableFallBack();

private:
    friend struct opforge::twin::host::Access;

    std::string type_;
    std::deque<OpParamDef> inputs_;
    std::deque<OpParamDef> outputs_;
    std::deque<OpAttrDef> attributes_;
    OpAICoreDef aiCore_;
    gert::OpImplRegisterV2::InferShapeKernelFunc inferShape_ = nullptr;
    gert::OpImplRegisterV2::InferShapeRangeKernelFunc inferShapeRange_ = nullptr;
    gert::OpImplRegisterV2::InferDataTypeKernelFunc inferDataType_ = nullptr;
};
}  // namespace ops

#endif  // REGISTER_OP_DEF_H
