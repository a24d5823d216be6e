#include "register/op_impl_registry.h"

#include "host/gert/registry.h"

namespace gert {

using opforge::twin::host::Registry;

OpImplRegisterV2::OpImplRegisterV2(const ge::char_t* op_type)
    : implementation_(&Registry::Instance().ImplementationOf(op_type))
{
}

OpImplRegisterV2& OpImplRegisterV2::InferShape(InferShapeKernelFunc infer_shape_func)
{
    implementation_->inferShape = infer_shape_func;
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InferShapeRange(InferShapeRangeKernelFunc infer_shape_range_func)
{
    implementation_->inferShapeRange = infer_shape_range_func;
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InferDataType(InferDataTypeKernelFunc infer_datatype_func)
{
    implementation_->inferDataType = infer_datatype_func;
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InferOutDataTypeSameWithFirstInput()
{
    implementation_->hasDtypeOfFirstInput = true;
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::Tiling(TilingKernelFunc tiling_func, size_t max_tiling_data_size)
{
    implementation_->tiling = tiling_func;
    implementation_->tilingDataCapacity = max_tiling_data_size;
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::InputsDataDependency(std::initializer_list<int32_t> inputs)
{
    implementation_->dataDependent.insert(inputs.begin(), inputs.end());
    return *this;
}

OpImplRegisterV2& OpImplRegisterV2::TilingInputsDataDependency(std::initializer_list<int32_t> inputs)
{
    implementation_->tilingDataDependent.insert(inputs.begin(), inputs.end());
    return *this;
}

}  // namespace gert
