// IMPL_OP: registers the host functions of an operator type. Several registrations of one type are merged.
#ifndef REGISTER_OP_IMPL_REGISTRY_H
#define REGISTER_OP_IMPL_REGISTRY_H

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/infer_shape_range_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "graph/types.h"

namespace opforge::twin::host {
struct Implementation;
}  // namespace opforge::twin::host

namespace gert {
class TilingParseContext;

class OpImplRegisterV2 {
public:
    using InferShapeKernelFunc = ge::graphStatus (*)(InferShapeContext*);
    using InferShapeRangeKernelFunc = ge::graphStatus (*)(InferShapeRangeContext*);
    using InferDataTypeKernelFunc = ge::graphStatus (*)(InferDataTypeContext*);
    using TilingKernelFunc = ge::graphStatus (*)(TilingContext*);
    using KernelFunc = uint32_t (*)(KernelContext*);
    using TilingParseFunc = uint32_t (*)(TilingParseContext*);

    explicit OpImplRegisterV2(const ge::char_t* op_type);

    OpImplRegisterV2& InferShape(InferShapeKernelFunc infer_shape_func);
    OpImplRegisterV2& InferShapeRange(InferShapeRangeKernelFunc infer_shape_range_func);
    OpImplRegisterV2& InferDataType(InferDataTypeKernelFunc infer_datatype_func);
    OpImplRegisterV2& InferOutDataTypeSameWithFirstInput();
    OpImplRegisterV2& Tiling(TilingKernelFunc tiling_func, size_t max_tiling_data_size = 2048);
    /// The twin does not compile a call in advance, so it needs no parsed data. As with OP_ADD on CANN, the function is
    /// not called.
    template <typename T>
    OpImplRegisterV2& TilingParse(const KernelFunc tiling_parse_func)
    {
        (void)tiling_parse_func;
        return *this;
    }
    template <typename T>
    OpImplRegisterV2& TilingParse(const TilingParseFunc tiling_parse_func)
    {
        (void)tiling_parse_func;
        return *this;
    }
    /// Sets the IR indices of inputs whose values InferShape and Tiling may read.
    OpImplRegisterV2& InputsDataDependency(std::initializer_list<int32_t> inputs);
    OpImplRegisterV2& TilingInputsDataDependency(std::initializer_list<int32_t> inputs);

private:
    opforge::twin::host::Implementation* implementation_;
};
}  // namespace gert

#define OPFORGE_JOIN_WORDS(a, b) a##b
#define OPFORGE_JOIN(a, b) OPFORGE_JOIN_WORDS(a, b)

#define IMPL_OP(op_type)                                                                                             \
    [[maybe_unused]] static const gert::OpImplRegisterV2 OPFORGE_JOIN(opforgeImplementation##op_type, __COUNTER__) = \
        gert::OpImplRegisterV2(#op_type)
#define IMPL_OP_INFERSHAPE(op_type) IMPL_OP(op_type)
#define IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)

#endif  // REGISTER_OP_IMPL_REGISTRY_H
