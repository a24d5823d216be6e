// AscendC::Std: the part of the C++ standard library that kernels can use.
#ifndef OPFORGE_TWIN_KERNEL_STD_H
#define OPFORGE_TWIN_KERNEL_STD_H

#include <tuple>
#include <type_traits>
#include <utility>

#include "opforge_twin/kernel/half.h"

namespace AscendC {

namespace Std {

using std::add_const;
using std::add_const_t;
using std::add_cv;
using std::add_cv_t;
using std::add_lvalue_reference;
using std::add_lvalue_reference_t;
using std::add_pointer;
using std::add_pointer_t;
using std::add_rvalue_reference;
using std::add_rvalue_reference_t;
using std::add_volatile;
using std::add_volatile_t;
using std::bool_constant;
using std::conditional;
using std::conditional_t;
using std::decay_t;
using std::declval;
using std::enable_if;
using std::enable_if_t;
using std::false_type;
using std::forward;
using std::get;
using std::index_sequence;
using std::integer_sequence;
using std::integral_constant;
using std::is_array;
using std::is_array_v;
using std::is_base_of;
using std::is_base_of_v;
using std::is_const;
using std::is_const_v;
using std::is_convertible;
using std::is_convertible_v;
using std::is_floating_point;
using std::is_floating_point_v;
using std::is_integral;
using std::is_integral_v;
using std::is_pointer;
using std::is_pointer_v;
using std::is_reference;
using std::is_reference_v;
using std::is_same;
using std::is_same_v;
using std::is_void;
using std::is_void_v;
using std::make_index_sequence;
using std::make_integer_sequence;
using std::make_tuple;
using std::move;
using std::remove_const;
using std::remove_const_t;
using std::remove_cv;
using std::remove_cv_t;

using std::remove_pointer;
using std::remove_pointer_t;
using std::remove_reference;
using std::remove_reference_t;
using std::remove_volatile;
using std::remove_volatile_t;
using std::tie;
using std::true_type;
using std::tuple;
using std::tuple_element;
using std::tuple_element_t;
using std::tuple_size;
using std::tuple_size_v;
using std::void_t;

template <size_t value>
using Int = integral_constant<size_t, value>;

template <typename... T>
inline constexpr bool always_false_v = false;

/// Returns the larger value; `b` is converted to the type of `a`.
template <typename T, typename U>
constexpr T max(const T& a, const U& b)
{
    return a > static_cast<T>(b) ? a : static_cast<T>(b);
}

template <typename T, typename U>
constexpr T min(const T& a, const U& b)
{
    return a < static_cast<T>(b) ? a : static_cast<T>(b);
}

template <typename T>
constexpr T abs(const T value)
{
    return value < T(0) ? T(-value) : value;
}

template <typename T>
T sqrt(const T value)
{
    static_assert(is_same_v<T, float> || is_same_v<T, int64_t>, "sqrt of scalars supports float and int64_t");
    return static_cast<T>(__builtin_sqrtf(static_cast<float>(value)));
}

}  // namespace Std

template <bool condition, typename T, typename F>
using Conditional = Std::conditional<condition, T, F>;

using TrueType = Std::true_type;
using FalseType = Std::false_type;

template <typename T, typename U>
struct IsSameType : Std::is_same<T, U> {};

template <typename T, typename U, typename... Args>
constexpr bool SupportType()
{
    return Std::is_same_v<T, U> || (Std::is_same_v<T, Args> || ...);
}

// A template, so that a kernel can also include the C++ header with the function of this name.
template <typename T, typename = Std::enable_if_t<Std::is_same_v<T, float>>>
T sqrt(T value)
{
    return __builtin_sqrtf(value);
}

}  // namespace AscendC

using AscendC::sqrt;

#endif  // OPFORGE_TWIN_KERNEL_STD_H
