// The set of element types that an input or output supports.
#ifndef GRAPH_TENSOR_TYPE_H
#define GRAPH_TENSOR_TYPE_H

#include <initializer_list>
#include <vector>

#include "graph/types.h"

namespace opforge::twin::host {
struct Access;
}  // namespace opforge::twin::host

namespace ge {
struct TensorType {
public:
    explicit TensorType(DataType dt);
    TensorType(const std::initializer_list<DataType>& initial_types);

    static TensorType ALL();
    static TensorType QuantifiedType();
    static TensorType OrdinaryType();
    static TensorType BasicType();
    static TensorType NumberType();
    static TensorType RealNumberType();
    static TensorType ComplexDataType();
    static TensorType IntegerDataType();
    static TensorType SignedDataType();
    static TensorType UnsignedDataType();
    static TensorType FloatingDataType();
    static TensorType IndexNumberType();
    static TensorType UnaryDataType();
    static TensorType FLOAT();

private:
    friend struct opforge::twin::host::Access;

    std::vector<DataType> types_;
};
}  // namespace ge

#endif  // GRAPH_TENSOR_TYPE_H
