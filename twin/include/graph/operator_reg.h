// REG_OP: registers the prototype of an operator type. Use it inside namespace ge.
#ifndef GRAPH_OPERATOR_REG_H
#define GRAPH_OPERATOR_REG_H

#include "graph/operator.h"
#include "graph/operator_factory.h"
#include "graph/tensor_type.h"
#include "opforge_twin/host/prototype.h"

#define REG_OP(x)                                                     \
    namespace op {                                                    \
    class x : public Operator {                                       \
    public:                                                           \
        x() : Operator(#x)                                            \
        {                                                             \
            Describe();                                               \
        }                                                             \
        explicit x(const char_t* name) : Operator(name, #x)           \
        {                                                             \
            Describe();                                               \
        }                                                             \
        explicit x(const AscendString& name) : x(name.GetString()) {} \
                                                                      \
    private:                                                          \
        void Describe()                                               \
        {                                                             \
            opforge::twin::host::Prototype(#x, *this)

#define INPUT(x, t) Input(#x, t)
#define OPTIONAL_INPUT(x, t) OptionalInput(#x, t)
#define DYNAMIC_INPUT(x, t) DynamicInput(#x, t)
#define OUTPUT(x, t) Output(#x, t)
#define DYNAMIC_OUTPUT(x, t) DynamicOutput(#x, t)
#define ATTR(x, Type, ...) Type##Attribute(#x, __VA_ARGS__)
#define REQUIRED_ATTR(x, Type) RequiredAttribute(#x, opforge::twin::host::PrototypeAttribute::k##Type)
#define DATATYPE(x, t) DataType(#x, t)

#define OP_END_FACTORY_REG(x)                                                                     \
    Register();                                                                                   \
    }                                                                                             \
    }                                                                                             \
    ;                                                                                             \
    [[maybe_unused]] static const opforge::twin::host::PrototypeRegistration opforgePrototype##x( \
        #x, [](const AscendString& name) -> Operator { return x(name); });                        \
    }

#endif  // GRAPH_OPERATOR_REG_H
