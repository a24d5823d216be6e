// The interface between the high-level functions and the twin runtime library: one request for all of them.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_H
#define OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_H

#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

enum class HighOp : uint8_t {
#define OPFORGE_HIGH(name, ...) k##name,
#include "opforge_twin/kernel/high/operations.inc"
#undef OPFORGE_HIGH
};

/// A call of a high-level function. The order of operands, sizes and numbers belongs to the function.
struct HighRequest {
    HighOp op;
    std::initializer_list<const LocalView*> operands;  ///< null: absent, or a scalar of `numbers`
    const LocalView* tmp;                              ///< null: the function takes free memory
    std::initializer_list<int64_t> sizes;
    std::initializer_list<double> numbers = {};
};

/// Returns 0, or the result of a function that has one.
int64_t RunHigh(const HighRequest& request, const Call& call);

template <typename T, typename... Allowed>
constexpr void RequireDtype()
{
    static_assert(!kIsTrait<T>, "TensorTrait: high-level functions have no such tensors; use ReinterpretCast");
    static_assert(kIsAnyOf<T, Allowed...>, "this dtype does not exist for the function on Ascend 910B");
}

template <typename T>
double NumberOf(const T& value)
{
    return static_cast<double>(value);
}

}  // namespace opforge::twin::kernel

#define OPFORGE_HIGH_CALL(name) {#name, opforge::twin::kernel::Here()}

#endif  // OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_H
