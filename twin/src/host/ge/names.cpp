#include "host/ge/names.h"

#include <cctype>
#include <cstdio>

#include "graph/ascend_string.h"
#include "opdev/data_type_utils.h"
#include "opforge_twin/host/attribute.h"

namespace opforge::twin::host {

namespace {

struct Word {
    ge::DataType dtype;
    const char* name;
    int bytes;
};

#define OPFORGE_DTYPE(dtype, name, bytes) {ge::dtype, name, bytes},
constexpr Word kWords[] = {
#include "dtype_table.inc"
};
#undef OPFORGE_DTYPE

const Word* Find(ge::DataType dtype)
{
    for (const Word& word : kWords) {
        if (word.dtype == dtype) {
            return &word;
        }
    }
    return nullptr;
}

bool IsUpper(char letter)
{
    return std::isupper(static_cast<unsigned char>(letter)) != 0;
}

bool IsLower(char letter)
{
    return std::islower(static_cast<unsigned char>(letter)) != 0;
}

}  // namespace

std::string DtypeName(ge::DataType dtype)
{
    const Word* word = Find(dtype);
    return word != nullptr ? word->name : "dtype " + std::to_string(static_cast<int>(dtype));
}

int DtypeBytes(ge::DataType dtype)
{
    const Word* word = Find(dtype);
    return word != nullptr ? word->bytes : -1;
}

std::string DimsText(const std::vector<int64_t>& dims)
{
    std::string text = "[";
    for (size_t i = 0; i < dims.size(); ++i) {
        text += (i == 0 ? "" : ", ") + std::to_string(dims[i]);
    }
    return text + "]";
}

std::string DimsText(const gert::Shape& shape)
{
    return DimsText(DimsOf(shape));
}

std::vector<int64_t> DimsOf(const gert::Shape& shape)
{
    std::vector<int64_t> dims;
    for (size_t i = 0; i < shape.GetDimNum(); ++i) {
        dims.push_back(shape.GetDim(i));
    }
    return dims;
}

gert::Shape ShapeOf(const int64_t* dims, size_t count)
{
    gert::Shape shape;
    for (size_t i = 0; i < count; ++i) {
        shape.AppendDim(dims[i]);
    }
    return shape;
}

std::string SnakeCase(const std::string& opType)
{
    std::string name;
    for (size_t i = 0; i < opType.size(); ++i) {
        const bool isNewWord = i > 0 && IsUpper(opType[i]) &&
                               (!IsUpper(opType[i - 1]) || (i + 1 < opType.size() && IsLower(opType[i + 1])));
        name += isNewWord ? "_" : "";
        name += static_cast<char>(std::tolower(static_cast<unsigned char>(opType[i])));
    }
    return name;
}

const char* NameOf(AttributeType type)
{
    static const char* const names[] = {
        "an int",         "a float",          "a bool",          "a text",
        "a list of ints", "a list of floats", "a list of bools", "a list of lists of ints"};
    return names[static_cast<size_t>(type)];
}

AttributeValue ZeroOf(AttributeType type)
{
    switch (type) {
        case AttributeType::kInt:
            return int64_t{0};
        case AttributeType::kFloat:
            return 0.0F;
        case AttributeType::kBool:
            return false;
        case AttributeType::kString:
            return std::string();
        case AttributeType::kListInt:
            return std::vector<int64_t>();
        case AttributeType::kListFloat:
            return std::vector<float>();
        case AttributeType::kListBool:
            return std::vector<bool>();
        case AttributeType::kListListInt:
            return std::vector<std::vector<int64_t>>();
    }
    return int64_t{0};
}

}  // namespace opforge::twin::host

int ge::GetSizeByDataType(ge::DataType data_type)
{
    return opforge::twin::host::DtypeBytes(data_type);
}

size_t aclDataTypeSize(aclDataType dataType)
{
    const int bytes = ge::GetSizeByDataType(op::ToOpDataType(dataType));
    return bytes < 0 ? 0 : static_cast<size_t>(bytes);
}

namespace op {

using opforge::twin::host::DimsText;
using opforge::twin::host::DtypeName;

ge::AscendString ToString(op::DataType dataType)
{
    return DtypeName(dataType).c_str();
}

ge::AscendString ToString(const std::initializer_list<DataType>& dataTypes)
{
    std::string text;
    for (const DataType dtype : dataTypes) {
        text += (text.empty() ? "" : ", ") + DtypeName(dtype);
    }
    return text.c_str();
}

ge::AscendString ToString(const op::Shape& shape)
{
    return DimsText(shape).c_str();
}

ge::AscendString ToString(const op::Strides& strides)
{
    return DimsText(strides).c_str();
}

ge::AscendString ToString(Format format)
{
    static const std::pair<Format, const char*> words[] = {
        {ge::FORMAT_ND, "ND"},           {ge::FORMAT_NCHW, "NCHW"},   {ge::FORMAT_NHWC, "NHWC"},
        {ge::FORMAT_NCL, "NCL"},         {ge::FORMAT_NCDHW, "NCDHW"}, {ge::FORMAT_NDHWC, "NDHWC"},
        {ge::FORMAT_HWCN, "HWCN"},       {ge::FORMAT_NC, "NC"},       {ge::FORMAT_FRACTAL_NZ, "FRACTAL_NZ"},
        {ge::FORMAT_NC1HWC0, "NC1HWC0"},
    };
    for (const auto& [known, word] : words) {
        if (known == format) {
            return word;
        }
    }
    return ("format " + std::to_string(static_cast<int>(format))).c_str();
}

ge::AscendString ToString(const std::string& str)
{
    return str.c_str();
}

size_t TypeSize(DataType dataType)
{
    const int bytes = ge::GetSizeByDataType(dataType);
    return bytes < 0 ? 0 : static_cast<size_t>(bytes);
}

bool CheckType(const DataType dtype, const std::initializer_list<DataType>& valid_types)
{
    for (const DataType valid : valid_types) {
        if (dtype == valid) {
            return true;
        }
    }
    return false;
}

bool IsFloatingType(const ge::DataType type)
{
    return CheckType(type, {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16, ge::DT_DOUBLE});
}

bool IsIntegralType(const ge::DataType type)
{
    return CheckType(type, {ge::DT_INT8, ge::DT_INT16, ge::DT_INT32, ge::DT_INT64, ge::DT_UINT8, ge::DT_UINT16,
                            ge::DT_UINT32, ge::DT_UINT64});
}

bool IsIntegralType(const ge::DataType type, const bool include_bool)
{
    return IsIntegralType(type) || (include_bool && type == ge::DT_BOOL);
}

DataType ToOpDataType(aclDataType type)
{
    return type == ACL_DT_UNDEFINED ? ge::DT_UNDEFINED : static_cast<DataType>(type);
}

aclDataType ToAclDataType(DataType type)
{
    return type == ge::DT_UNDEFINED ? ACL_DT_UNDEFINED : static_cast<aclDataType>(type);
}

}  // namespace op
