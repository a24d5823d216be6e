#ifndef OPFORGE_OP_HOST_COMMON_EXPRESSION_H
#define OPFORGE_OP_HOST_COMMON_EXPRESSION_H

#include <cstdint>
#include <string_view>

#include "common/plan.h"

namespace opforge {

/// Whether a value is known. An error (a result beyond 64 bits, a division by zero) has precedence over an unknown
/// value.
enum class ValueState : int32_t { kKnown, kUnknown, kError };

constexpr ValueState Joined(ValueState left, ValueState right)
{
    return left > right ? left : right;
}

/// A 64-bit integer of the spec's expression language; unknown if it depends on a dimension of -1.
class Int {
public:
    constexpr explicit Int(int64_t value) : value_(value) {}

    static constexpr Int Unknown() { return Int(ValueState::kUnknown); }
    static constexpr Int Error() { return Int(ValueState::kError); }

    constexpr bool IsKnown() const { return state_ == ValueState::kKnown; }
    constexpr bool IsError() const { return state_ == ValueState::kError; }
    constexpr ValueState State() const { return state_; }

    /// Returns the value; `otherwise` if it is not known.
    constexpr int64_t ValueOr(int64_t otherwise) const { return IsKnown() ? value_ : otherwise; }

    friend constexpr Int operator+(Int left, Int right)
    {
        int64_t sum = 0;
        const bool isOverflow = __builtin_add_overflow(left.value_, right.value_, &sum);
        return Made(left, right, isOverflow, sum);
    }

    friend constexpr Int operator-(Int left, Int right)
    {
        int64_t difference = 0;
        const bool isOverflow = __builtin_sub_overflow(left.value_, right.value_, &difference);
        return Made(left, right, isOverflow, difference);
    }

    friend constexpr Int operator*(Int left, Int right)
    {
        int64_t product = 0;
        const bool isOverflow = __builtin_mul_overflow(left.value_, right.value_, &product);
        return Made(left, right, isOverflow, product);
    }

    friend constexpr Int operator-(Int operand) { return Int(0) - operand; }

private:
    constexpr explicit Int(ValueState state) : state_(state) {}

    static constexpr Int Made(Int left, Int right, bool isOverflow, int64_t value)
    {
        const ValueState state = Joined(left.state_, right.state_);
        if (state != ValueState::kKnown) {
            return Int(state);
        }
        return isOverflow ? Error() : Int(value);
    }

    int64_t value_ = 0;
    ValueState state_ = ValueState::kKnown;
};

/// A condition of the expression language. `&&` and `||` are evaluated from the left and are known if one operand
/// decides the result.
class Logic {
public:
    constexpr explicit Logic(bool value) : value_(value) {}
    constexpr Logic(bool value, ValueState state) : value_(value), state_(state) {}

    constexpr bool IsTrue() const { return state_ == ValueState::kKnown && value_; }
    constexpr bool IsFalse() const { return state_ == ValueState::kKnown && !value_; }
    constexpr bool IsError() const { return state_ == ValueState::kError; }

    /// Whether a constraint with this condition is violated. Unknown conditions are not.
    constexpr bool IsBroken() const { return IsFalse() || IsError(); }

    friend constexpr Logic operator!(Logic operand) { return Logic(!operand.value_, operand.state_); }

    friend constexpr Logic operator&&(Logic left, Logic right)
    {
        if (left.IsError() || left.IsFalse() || right.IsError() || right.IsFalse()) {
            return left.IsError() || left.IsFalse() ? left : right;
        }
        return Logic(true, Joined(left.state_, right.state_));
    }

    friend constexpr Logic operator||(Logic left, Logic right) { return !(!left && !right); }

private:
    bool value_;
    ValueState state_ = ValueState::kKnown;
};

/// A dtype of the expression language; kNone is unknown.
class Dtype {
public:
    constexpr explicit Dtype(DataType value) : value_(value) {}

    friend constexpr Logic operator==(Dtype left, Dtype right)
    {
        const bool isKnown = left.value_ != DataType::kNone && right.value_ != DataType::kNone;
        return Logic(left.value_ == right.value_, isKnown ? ValueState::kKnown : ValueState::kUnknown);
    }

    friend constexpr Logic operator!=(Dtype left, Dtype right) { return !(left == right); }

private:
    DataType value_;
};

/// A decimal number of the expression language.
class Real {
public:
    constexpr explicit Real(float value) : value_(value) {}

    constexpr float Value() const { return value_; }

    friend constexpr Logic operator==(Real left, Real right) { return Logic(!(left != right).IsTrue()); }
    friend constexpr Logic operator!=(Real left, Real right)
    {
        return Logic(left.value_ < right.value_ || left.value_ > right.value_ || left.IsNan() || right.IsNan());
    }
    friend constexpr Logic operator<(Real left, Real right) { return Logic(left.value_ < right.value_); }
    friend constexpr Logic operator<=(Real left, Real right) { return Logic(left.value_ <= right.value_); }
    friend constexpr Logic operator>(Real left, Real right) { return Logic(left.value_ > right.value_); }
    friend constexpr Logic operator>=(Real left, Real right) { return Logic(left.value_ >= right.value_); }

private:
    constexpr bool IsNan() const { return !(value_ <= 0.0F || value_ >= 0.0F); }

    float value_;
};

/// A text of the expression language; nullptr is unknown.
class Text {
public:
    constexpr explicit Text(const char* value) : value_(value) {}

    friend constexpr Logic operator==(Text left, Text right)
    {
        if (left.value_ == nullptr || right.value_ == nullptr) {
            return Logic(false, ValueState::kUnknown);
        }
        return Logic(std::string_view(left.value_) == std::string_view(right.value_));
    }

    friend constexpr Logic operator!=(Text left, Text right) { return !(left == right); }

private:
    const char* value_;
};

constexpr Logic Compared(Int left, Int right, bool value)
{
    return Logic(value, Joined(left.State(), right.State()));
}

constexpr Logic operator==(Int left, Int right)
{
    return Compared(left, right, left.ValueOr(0) == right.ValueOr(0));
}
constexpr Logic operator!=(Int left, Int right)
{
    return !(left == right);
}
constexpr Logic operator<(Int left, Int right)
{
    return Compared(left, right, left.ValueOr(0) < right.ValueOr(0));
}
constexpr Logic operator>(Int left, Int right)
{
    return right < left;
}
constexpr Logic operator<=(Int left, Int right)
{
    return !(right < left);
}
constexpr Logic operator>=(Int left, Int right)
{
    return !(left < right);
}

constexpr Logic operator==(Logic left, Logic right)
{
    return (left && right) || (!left && !right);
}
constexpr Logic operator!=(Logic left, Logic right)
{
    return !(left == right);
}

/// Returns the quotient, rounded down.
constexpr Int FloorDiv(Int dividend, Int divisor)
{
    const ValueState state = Joined(dividend.State(), divisor.State());
    if (divisor.IsKnown() && divisor.ValueOr(1) == 0) {
        return Int::Error();
    }
    if (state != ValueState::kKnown) {
        return state == ValueState::kError ? Int::Error() : Int::Unknown();
    }
    const int64_t a = dividend.ValueOr(0);
    const int64_t b = divisor.ValueOr(1);
    if (b == -1) {
        return -dividend;  // the only quotient that can overflow
    }
    const bool isRoundedUp = a % b != 0 && (a % b < 0) != (b < 0);
    return Int(a / b - (isRoundedUp ? 1 : 0));
}

constexpr Int FloorMod(Int dividend, Int divisor)
{
    if (dividend.IsKnown() && divisor.ValueOr(0) == -1) {
        return Int(0);  // the quotient can overflow, the remainder is always 0
    }
    const Int quotient = FloorDiv(dividend, divisor);
    if (!quotient.IsKnown()) {
        return quotient;
    }
    const int64_t divisorValue = divisor.ValueOr(1);
    const int64_t remainder = dividend.ValueOr(0) % divisorValue;
    const bool hasOtherSign = remainder != 0 && (remainder < 0) != (divisorValue < 0);
    return Int(hasOtherSign ? remainder + divisorValue : remainder);
}

constexpr Int Min(Int left, Int right)
{
    const Int sum = left * Int(0) + right * Int(0);
    return sum.IsKnown() ? (left.ValueOr(0) < right.ValueOr(0) ? left : right) : sum;
}

constexpr Int Max(Int left, Int right)
{
    const Int sum = left * Int(0) + right * Int(0);
    return sum.IsKnown() ? (left.ValueOr(0) < right.ValueOr(0) ? right : left) : sum;
}

/// Returns `chosen if condition else other`.
constexpr Int Chosen(Logic condition, Int chosen, Int other)
{
    if (!condition.IsTrue() && !condition.IsFalse()) {
        return condition.IsError() ? Int::Error() : Int::Unknown();
    }
    return condition.IsTrue() ? chosen : other;
}

constexpr Logic Chosen(Logic condition, Logic chosen, Logic other)
{
    if (!condition.IsTrue() && !condition.IsFalse()) {
        return condition;
    }
    return condition.IsTrue() ? chosen : other;
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_EXPRESSION_H
