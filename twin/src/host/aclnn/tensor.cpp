// aclTensor, lists, scalars, and queries on them.
#include <algorithm>
#include <cstring>
#include <utility>

#include "host/gert/access.h"
#include "host/acl/errors.h"
#include "host/gert/host_values.h"
#include "host/ge/names.h"
#include "kernel/exec/text.h"
#include "opdev/common_types.h"
#include "opdev/data_type_utils.h"
#include "opdev/format_utils.h"
#include "opdev/shape_utils.h"
#include "opdev/tensor_view_utils.h"
#include "opforge_twin/kernel/half.h"

using opforge::twin::host::DimsText;
using opforge::twin::host::DtypeName;
using opforge::twin::host::ShapeOf;
using opforge::twin::kernel::Text;

namespace {

/// Strides beyond 2^63, which only an empty tensor has, are the largest number.
op::Strides DenseStrides(const op::Shape& shape)
{
    op::Strides strides(shape.GetDimNum(), 1);
    for (size_t i = strides.size(); i > 1; --i) {
        if (__builtin_mul_overflow(strides[i - 1], shape.GetDim(i - 1), &strides[i - 2])) {
            strides[i - 2] = INT64_MAX;
        }
    }
    return strides;
}

}  // namespace

aclTensor::aclTensor(const op::Shape& shape, op::DataType dataType, op::Format format,
                     std::shared_ptr<aclStorage> storage)
    : viewFormat_(format), storage_(std::move(storage))
{
    tensor_.SetDataType(dataType);
    tensor_.SetOriginFormat(format);
    tensor_.SetStorageFormat(format);
    tensor_.MutableOriginShape() = shape;
    tensor_.MutableStorageShape() = shape;
    SetViewShape(shape);
}

void aclTensor::SetViewShape(const op::Shape& shape)
{
    viewShape_ = shape;
    viewStrides_ = DenseStrides(shape);
}

op::TensorPlacement aclTensor::GetPlacement() const
{
    return storage_->onHost ? gert::kOnHost : gert::kOnDeviceHbm;
}

void* aclTensor::GetData() const
{
    if (storage_->address == nullptr) {
        return nullptr;
    }
    const auto itemBytes = static_cast<int64_t>(op::TypeSize(GetDataType()));
    return static_cast<uint8_t*>(storage_->address) + (viewOffset_ + storageOffset_) * itemBytes;
}

ge::AscendString aclTensor::ToString() const
{
    const std::string text = Text("aclTensor of shape ", DimsText(viewShape_), ", strides ", DimsText(viewStrides_),
                                  ", offset ", viewOffset_, ", ", DtypeName(GetDataType()));
    return text.c_str();
}

namespace {

template <typename T>
void SetHostValues(const aclTensor& tensor, aclStorage& storage, const T* value, uint64_t size, op::DataType dataType)
{
    using opforge::twin::host::ReportMisuse;
    std::vector<uint8_t> bytes = opforge::twin::host::HostBytes(value, size, dataType);
    if (!storage.onHost || dataType != tensor.GetDataType() || bytes.size() != storage.host.size()) {
        ReportMisuse(Text("setting ", size, " values as ", DtypeName(dataType), " of the ",
                          storage.onHost ? "host " : "device ", tensor.ToString().GetString()));
        return;
    }
    std::copy(bytes.begin(), bytes.end(), storage.host.begin());
}

}  // namespace

void aclTensor::SetBoolData(const bool* value, uint64_t size, op::DataType dataType)
{
    SetHostValues(*this, *storage_, value, size, dataType);
}

void aclTensor::SetIntData(const int64_t* value, uint64_t size, op::DataType dataType)
{
    SetHostValues(*this, *storage_, value, size, dataType);
}

void aclTensor::SetFloatData(const float* value, uint64_t size, op::DataType dataType)
{
    SetHostValues(*this, *storage_, value, size, dataType);
}

void aclTensor::SetFp16Data(const op::fp16_t* value, uint64_t size, op::DataType dataType)
{
    SetHostValues(*this, *storage_, value, size, dataType);
}

void aclTensor::SetBf16Data(const op::bfloat16* value, uint64_t size, op::DataType dataType)
{
    SetHostValues(*this, *storage_, value, size, dataType);
}

void aclTensor::InitTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorDataAddr)
{
    *this = aclTensor(ShapeOf(viewDims, viewDimsNum), op::ToOpDataType(dataType), static_cast<op::Format>(format),
                      std::make_shared<aclStorage>());
    tensor_.MutableStorageShape() = ShapeOf(storageDims, storageDimsNum);
    if (stride != nullptr) {
        viewStrides_.assign(stride, stride + viewDimsNum);
    }
    viewOffset_ = offset;
    storage_->address = tensorDataAddr;
}

aclTensorList::aclTensorList(const aclTensor* const* value, uint64_t size)
{
    for (uint64_t i = 0; i < size; ++i) {
        tensors_.push_back(const_cast<aclTensor*>(value[i]));
    }
}

ge::AscendString aclTensorList::ToString() const
{
    return Text("list of ", tensors_.size(), " tensors").c_str();
}

aclScalarList::aclScalarList(const aclScalar* const* value, uint64_t size)
{
    for (uint64_t i = 0; i < size; ++i) {
        scalars_.push_back(const_cast<aclScalar*>(value[i]));
    }
}

ge::AscendString aclScalarList::ToString() const
{
    return Text("list of ", scalars_.size(), " scalars").c_str();
}

aclScalar::aclScalar(const void* data, op::DataType dataType) : dataType_(dataType)
{
    std::memcpy(bytes_.data(), data, Size());
}

uint64_t aclScalar::Size() const
{
    return op::TypeSize(dataType_);
}

namespace {

template <typename T>
T Read(const void* data)
{
    T value;
    std::memcpy(&value, data, sizeof(T));
    return value;
}

/// A value as a number; 0 for an element type that C++ does not have.
template <typename To>
To Number(op::DataType dtype, const void* data)
{
    To number{};
    opforge::twin::host::VisitType(dtype, [&](auto zero) {
        using From = decltype(zero);
        if constexpr (std::is_same_v<From, bool>) {
            number = Read<uint8_t>(data) != 0;
        } else if constexpr (std::is_arithmetic_v<From>) {
            number = static_cast<To>(Read<From>(data));
        } else {
            number = static_cast<To>(static_cast<float>(Read<From>(data)));
        }
    });
    return number;
}

}  // namespace

double aclScalar::ToDouble() const
{
    return Number<double>(dataType_, bytes_.data());
}

int64_t aclScalar::ToInt64() const
{
    return Number<int64_t>(dataType_, bytes_.data());
}

std::complex<double> aclScalar::ToComplex128() const
{
    if (dataType_ == ge::DT_COMPLEX64) {
        return Read<std::complex<float>>(bytes_.data());
    }
    return dataType_ == ge::DT_COMPLEX128 ? Read<std::complex<double>>(bytes_.data())
                                          : std::complex<double>(ToDouble());
}

std::complex<float> aclScalar::ToComplex64() const
{
    return std::complex<float>(ToComplex128());
}

ge::AscendString aclScalar::ToString() const
{
    return Text(ToDouble(), " (", DtypeName(dataType_), ")").c_str();
}

namespace op {

fp16_t::fp16_t(float value) : val(opforge::twin::kernel::FloatToHalf(value)) {}
fp16_t::operator float() const
{
    return opforge::twin::kernel::HalfToFloat(val);
}
bfloat16::bfloat16(float number) : value(opforge::twin::kernel::FloatToBfloat16(number)) {}
bfloat16::operator float() const
{
    return opforge::twin::kernel::BitsFloat(static_cast<uint32_t>(value) << 16);
}

bool IsPrivateFormat(Format format)
{
    switch (format) {
        case ge::FORMAT_NC1HWC0:
        case ge::FORMAT_NDC1HWC0:
        case ge::FORMAT_FRACTAL_Z:
        case ge::FORMAT_FRACTAL_NZ:
        case ge::FORMAT_FRACTAL_Z_3D:
        case ge::FORMAT_NC1HWC0_C04:
        case ge::FORMAT_C1HWNCoC0:
            return true;
        default:
            return false;
    }
}

void ToShape(const op::ShapeVector& shapeVector, op::Shape& shape)
{
    shape = ShapeOf(shapeVector.data(), shapeVector.size());
}

void ToShape(const int64_t* dims, uint64_t dimNum, op::Shape& shape)
{
    shape = ShapeOf(dims, dimNum);
}

ShapeVector ToShapeVector(const op::Shape& shape)
{
    return opforge::twin::host::DimsOf(shape);
}

bool CheckBroadcastShape(const op::Shape& self, const op::Shape& other)
{
    op::Shape shape;
    return BroadcastInferShape(self, other, shape);
}

bool BroadcastInferShape(const op::Shape& self, const op::Shape& other, op::Shape& broadcastShape)
{
    const size_t rank = std::max(self.GetDimNum(), other.GetDimNum());
    std::vector<int64_t> dims(rank, 1);
    for (size_t i = 0; i < rank; ++i) {  // count from the last dim
        const int64_t left = i < self.GetDimNum() ? self.GetDim(self.GetDimNum() - 1 - i) : 1;
        const int64_t right = i < other.GetDimNum() ? other.GetDim(other.GetDimNum() - 1 - i) : 1;
        if (left != right && left != 1 && right != 1) {
            return false;
        }
        dims[rank - 1 - i] = left == 1 ? right : left;
    }
    broadcastShape = ShapeOf(dims.data(), dims.size());
    return true;
}

bool IsContiguous(const aclTensor* tensor)
{
    if (tensor == nullptr || tensor->IsEmpty()) {
        return true;
    }
    int64_t expected = 1;
    for (size_t i = tensor->GetViewStrides().size(); i > 0; --i) {
        const int64_t dim = tensor->GetViewShape().GetDim(i - 1);
        if (dim != 1 && tensor->GetViewStrides()[i - 1] != expected) {
            return false;
        }
        expected *= dim;
    }
    return true;
}

bool Validate(const aclTensor* tensor)
{
    if (tensor == nullptr) {
        return false;
    }
    if (tensor->IsEmpty()) {
        return true;
    }
    int64_t last = tensor->GetViewOffset();
    for (size_t i = 0; i < tensor->GetViewStrides().size(); ++i) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(tensor->GetViewShape().GetDim(i) - 1, tensor->GetViewStrides()[i], &reach) ||
            __builtin_add_overflow(last, reach, &last)) {
            return false;
        }
    }
    return tensor->GetViewOffset() >= 0 && last >= 0 && last < tensor->GetStorageShape().GetShapeSize();
}

}  // namespace op

float aclFloat16ToFloat(aclFloat16 value)
{
    return opforge::twin::kernel::HalfToFloat(value);
}

aclFloat16 aclFloatToFloat16(float value)
{
    return opforge::twin::kernel::FloatToHalf(value);
}
