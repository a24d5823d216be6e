// Value types of the graph: strings, shapes, descriptions, tensors, attribute values, sets of types.
#include <algorithm>
#include <cstring>
#include <utility>
#include <variant>

#include "graph/ascend_string.h"
#include "graph/attr_value.h"
#include "graph/tensor.h"
#include "graph/tensor_type.h"

namespace ge {

AscendString::AscendString(const char_t* const name)
    : name_(name == nullptr ? nullptr : std::make_shared<std::string>(name))
{
}

AscendString::AscendString(const char_t* const name, size_t length)
    : name_(name == nullptr ? nullptr : std::make_shared<std::string>(name, length))
{
}

const char_t* AscendString::GetString() const
{
    return name_ == nullptr ? "" : name_->c_str();
}
size_t AscendString::GetLength() const
{
    return name_ == nullptr ? 0 : name_->size();
}

size_t AscendString::Find(const AscendString& ascend_string) const
{
    return name_ == nullptr ? std::string::npos : name_->find(ascend_string.GetString());
}

size_t AscendString::Hash() const
{
    return std::hash<std::string>()(GetString());
}

bool AscendString::operator<(const AscendString& d) const
{
    return std::strcmp(GetString(), d.GetString()) < 0;
}
bool AscendString::operator>(const AscendString& d) const
{
    return d < *this;
}
bool AscendString::operator<=(const AscendString& d) const
{
    return !(d < *this);
}
bool AscendString::operator>=(const AscendString& d) const
{
    return !(*this < d);
}
bool AscendString::operator==(const AscendString& d) const
{
    return *this == d.GetString();
}
bool AscendString::operator!=(const AscendString& d) const
{
    return !(*this == d);
}
bool AscendString::operator==(const char_t* const d) const
{
    return std::strcmp(GetString(), d == nullptr ? "" : d) == 0;
}
bool AscendString::operator!=(const char_t* const d) const
{
    return !(*this == d);
}

size_t Shape::GetDimNum() const
{
    return dims_.size() == 1 && dims_[0] == UNKNOWN_DIM_NUM ? 0 : dims_.size();
}

graphStatus Shape::SetDim(size_t idx, int64_t value)
{
    if (idx >= dims_.size()) {
        return GRAPH_FAILED;
    }
    dims_[idx] = value;
    return GRAPH_SUCCESS;
}

int64_t Shape::GetDim(size_t idx) const
{
    return idx < dims_.size() ? dims_[idx] : 0;
}

int64_t Shape::GetShapeSize() const
{
    int64_t size = dims_.empty() ? 0 : 1;
    for (const int64_t dim : dims_) {
        if (dim < 0) {
            return UNKNOWN_DIM;
        }
        size *= dim;
    }
    return size;
}

TensorDesc::TensorDesc(Shape shape, Format format, DataType dt)
{
    Update(shape, format, dt);
}

void TensorDesc::Update(const Shape& shape, Format format, DataType dt)
{
    shape_ = shape;
    format_ = format;
    dataType_ = dt;
}

graphStatus TensorDesc::SetUnknownDimNumShape()
{
    shape_ = Shape({UNKNOWN_DIM_NUM});
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::SetShapeRange(const std::vector<std::pair<int64_t, int64_t>>& range)
{
    shapeRange_ = range;
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::GetShapeRange(std::vector<std::pair<int64_t, int64_t>>& range) const
{
    range = shapeRange_;
    return GRAPH_SUCCESS;
}

graphStatus TensorDesc::GetName(AscendString& name)
{
    return std::as_const(*this).GetName(name);
}

graphStatus TensorDesc::GetName(AscendString& name) const
{
    name = AscendString(name_.c_str(), name_.size());
    return GRAPH_SUCCESS;
}

void TensorDesc::SetName(const char_t* name)
{
    name_ = name == nullptr ? "" : name;
}

Tensor::Tensor(const TensorDesc& tensor_desc, const uint8_t* data, size_t size) : desc_(tensor_desc)
{
    SetData(data, size);
}

graphStatus Tensor::SetTensorDesc(const TensorDesc& tensor_desc)
{
    desc_ = tensor_desc;
    return GRAPH_SUCCESS;
}

graphStatus Tensor::SetData(const uint8_t* data, size_t size)
{
    if (data == nullptr && size != 0) {
        return GRAPH_PARAM_INVALID;
    }
    data_.assign(data, data + size);
    return GRAPH_SUCCESS;
}

NamedAttrs& NamedAttrs::SetAttr(const AscendString& name, const AttrValue& value)
{
    attributes_[name.GetString()] = std::make_shared<AttrValue>(value);
    return *this;
}

graphStatus NamedAttrs::GetAttr(const AscendString& name, AttrValue& value) const
{
    const auto found = attributes_.find(name.GetString());
    if (found == attributes_.end()) {
        return GRAPH_FAILED;
    }
    value = *found->second;
    return GRAPH_SUCCESS;
}

struct AttrValue::Held {
    std::variant<int64_t, float32_t, bool, std::string, DataType, Tensor, OpBytes, NamedAttrs, std::vector<int64_t>,
                 std::vector<float32_t>, std::vector<bool>, std::vector<std::string>, std::vector<DataType>,
                 std::vector<std::vector<int64_t>>, std::vector<Tensor>, std::vector<NamedAttrs>>
        value;
};

template <typename T>
graphStatus AttrValue::Store(const T& value)
{
    held_ = std::make_shared<const Held>(Held{value});
    return GRAPH_SUCCESS;
}

template <typename T>
graphStatus AttrValue::GetValue(T& value) const
{
    const T* const held = held_ == nullptr ? nullptr : std::get_if<T>(&held_->value);
    if (held == nullptr) {
        return GRAPH_FAILED;
    }
    value = *held;
    return GRAPH_SUCCESS;
}

// Each type has its name in GE, in the order of the variant.
#define OPFORGE_VALUES(ROW)                                  \
    ROW(VT_INT, int64_t)                                     \
    ROW(VT_FLOAT, float32_t)                                 \
    ROW(VT_BOOL, bool)                                       \
    ROW(VT_STRING, std::string)                              \
    ROW(VT_DATA_TYPE, DataType)                              \
    ROW(VT_TENSOR, Tensor)                                   \
    ROW(VT_BYTES, OpBytes)                                   \
    ROW(VT_NAMED_ATTRS, NamedAttrs)                          \
    ROW(VT_LIST_INT, std::vector<int64_t>)                   \
    ROW(VT_LIST_FLOAT, std::vector<float32_t>)               \
    ROW(VT_LIST_BOOL, std::vector<bool>)                     \
    ROW(VT_LIST_STRING, std::vector<std::string>)            \
    ROW(VT_LIST_DATA_TYPE, std::vector<DataType>)            \
    ROW(VT_LIST_LIST_INT, std::vector<std::vector<int64_t>>) \
    ROW(VT_LIST_TENSOR, std::vector<Tensor>)                 \
    ROW(VT_LIST_NAMED_ATTRS, std::vector<NamedAttrs>)

#define OPFORGE_INSTANCE(name, ...)                                  \
    template graphStatus AttrValue::Store(const __VA_ARGS__& value); \
    template graphStatus AttrValue::GetValue(__VA_ARGS__& value) const;
#define OPFORGE_VALUE_NAME(name, ...) #name,
OPFORGE_VALUES(OPFORGE_INSTANCE)

const char* AttrValue::TypeName() const
{
    static const char* const names[] = {OPFORGE_VALUES(OPFORGE_VALUE_NAME)};
    static_assert(std::size(names) == std::variant_size_v<decltype(Held::value)>);
    return held_ == nullptr ? "" : names[held_->value.index()];
}
#undef OPFORGE_VALUES
#undef OPFORGE_INSTANCE
#undef OPFORGE_VALUE_NAME

TensorType::TensorType(DataType dt) : types_{dt} {}
TensorType::TensorType(const std::initializer_list<DataType>& initial_types) : types_(initial_types) {}

TensorType TensorType::ALL()
{
    return {DT_BOOL,   DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT, DT_FLOAT16, DT_INT16,    DT_INT32,
            DT_INT64,  DT_INT8,       DT_QINT16,    DT_QINT32, DT_QINT8, DT_QUINT16, DT_QUINT8,   DT_RESOURCE,
            DT_STRING, DT_UINT16,     DT_UINT32,    DT_UINT64, DT_UINT8, DT_BF16,    DT_COMPLEX32};
}

TensorType TensorType::QuantifiedType()
{
    return {DT_QINT16, DT_QINT32, DT_QINT8, DT_QUINT16, DT_QUINT8};
}

TensorType TensorType::OrdinaryType()
{
    return {DT_BOOL,  DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16, DT_INT32,
            DT_INT64, DT_INT8,       DT_UINT16,    DT_UINT32, DT_UINT64, DT_UINT8,   DT_BF16,  DT_COMPLEX32};
}

TensorType TensorType::BasicType()
{
    return {DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16,    DT_INT32,
            DT_INT64,      DT_INT8,      DT_QINT16, DT_QINT32, DT_QINT8,   DT_QUINT16,  DT_QUINT8,
            DT_UINT16,     DT_UINT32,    DT_UINT64, DT_UINT8,  DT_BF16,    DT_COMPLEX32};
}

TensorType TensorType::NumberType()
{
    return {DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16,  DT_INT32, DT_INT64, DT_INT8,
            DT_QINT32,     DT_QINT8,     DT_QUINT8, DT_UINT16, DT_UINT32,  DT_UINT64, DT_UINT8, DT_BF16,  DT_COMPLEX32};
}

TensorType TensorType::RealNumberType()
{
    return {DT_DOUBLE, DT_FLOAT,  DT_FLOAT16, DT_INT16,  DT_INT32, DT_INT64,
            DT_INT8,   DT_UINT16, DT_UINT32,  DT_UINT64, DT_UINT8, DT_BF16};
}

TensorType TensorType::ComplexDataType()
{
    return {DT_COMPLEX128, DT_COMPLEX64, DT_COMPLEX32};
}

TensorType TensorType::IntegerDataType()
{
    return {DT_INT16, DT_INT32, DT_INT64, DT_INT8, DT_UINT16, DT_UINT32, DT_UINT64, DT_UINT8};
}

TensorType TensorType::SignedDataType()
{
    return {DT_INT16, DT_INT32, DT_INT64, DT_INT8};
}
TensorType TensorType::UnsignedDataType()
{
    return {DT_UINT16, DT_UINT32, DT_UINT64, DT_UINT8};
}
TensorType TensorType::FloatingDataType()
{
    return {DT_DOUBLE, DT_FLOAT, DT_FLOAT16, DT_BF16};
}
TensorType TensorType::IndexNumberType()
{
    return {DT_INT32, DT_INT64};
}

TensorType TensorType::UnaryDataType()
{
    return {DT_COMPLEX128, DT_COMPLEX64, DT_DOUBLE, DT_FLOAT, DT_FLOAT16, DT_BF16, DT_COMPLEX32};
}

TensorType TensorType::FLOAT()
{
    return {DT_FLOAT, DT_FLOAT16, DT_BF16};
}

}  // namespace ge
