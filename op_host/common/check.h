#ifndef OPFORGE_OP_HOST_COMMON_CHECK_H
#define OPFORGE_OP_HOST_COMMON_CHECK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "common/expression.h"
#include "common/plan.h"
#include "opforge_tables.h"

namespace opforge {

/// A tensor argument of a call. Negative dimensions and a dtype of kNone are unknown.
struct Argument {
    std::string name;
    bool isPresent = false;
    bool isRankKnown = true;
    std::vector<int64_t> dims = {};
    DataType dtype = DataType::kNone;
    Format format = Format::kUnknown;
    bool areValuesKnown = false;
    std::vector<int64_t> values = {};
};

/// The properties of a call other than its arguments.
struct CallEnvironment {
    Product product = Product::kUnknown;
    Int cores = Int::Unknown();
    bool mayCast = false;  // whether tensors are cast to the dtypes of kernels, as in an aclnn function
};

/// A labeled constraint of an operator and the status code of its violation.
struct Rule {
    const char* opType;
    const char* label;
    int32_t status;
};

/// The first constraint that a call violates. The message contains operator, parameter, actual value, expected value
/// and label.
struct Violation {
    const char* label;
    int32_t status;
    std::string message;
};

using MaybeViolation = std::optional<Violation>;

/// One dimension of a shape: its text in the spec and its value.
struct Dimension {
    const char* text;
    Int value;
    bool isOpen = false;  // any number of dimensions
};

using Dimensions = std::vector<Dimension>;

/// The dimensions of a symbol with a star.
struct Star {
    bool isKnown = false;
    std::vector<Int> dims = {};
};

/// The values of a list, or its steps; empty if they are unknown.
struct Values {
    ValueState state = ValueState::kUnknown;
    std::vector<Int> items = {};
};

inline Logic IsPresent(const Argument& argument)
{
    return Logic(argument.isPresent);
}

inline Dtype DtypeOf(const Argument& argument)
{
    return Dtype(argument.isPresent ? argument.dtype : DataType::kNone);
}

inline bool HasShape(const Argument& argument)
{
    return argument.isPresent && argument.isRankKnown;
}

inline Int RankOf(const Argument& argument)
{
    return HasShape(argument) ? Int(static_cast<int64_t>(argument.dims.size())) : Int::Unknown();
}

/// Returns dimension `axis`; unknown if the argument or its rank is unknown.
inline Int DimOf(const Argument& argument, size_t axis)
{
    const bool isKnown = HasShape(argument) && axis < argument.dims.size() && argument.dims[axis] >= 0;
    return isKnown ? Int(argument.dims[axis]) : Int::Unknown();
}

inline Int ElementsOf(const Argument& argument)
{
    Int elements = HasShape(argument) ? Int(1) : Int::Unknown();
    for (size_t axis = 0; axis < argument.dims.size(); ++axis) {
        elements = elements * DimOf(argument, axis);
    }
    return elements;
}

/// Returns the size of an axis; a negative axis counts from the end, and an axis outside is an error.
inline Int SizeOf(const Argument& argument, Int axis)
{
    if (!HasShape(argument) || !axis.IsKnown()) {
        return axis.IsError() ? Int::Error() : Int::Unknown();
    }
    const auto rank = static_cast<int64_t>(argument.dims.size());
    const int64_t number = axis.ValueOr(0);
    if (number < -rank || number >= rank) {
        return Int::Error();
    }
    return DimOf(argument, static_cast<size_t>(number < 0 ? number + rank : number));
}

/// Returns dimension `distance` from the end: 1 is the last one.
inline Int DimFromEnd(const Argument& argument, size_t distance)
{
    return distance <= argument.dims.size() ? DimOf(argument, argument.dims.size() - distance) : Int::Unknown();
}

/// Returns all dimensions except the first `head` and the last `tail`.
inline Star StarOf(const Argument& argument, size_t head, size_t tail)
{
    Star star{HasShape(argument)};
    for (size_t axis = head; star.isKnown && axis + tail < argument.dims.size(); ++axis) {
        star.dims.push_back(DimOf(argument, axis));
    }
    return star;
}

inline Int LengthOf(const Star& star)
{
    return star.isKnown ? Int(static_cast<int64_t>(star.dims.size())) : Int::Unknown();
}

inline Int ElementsOf(const Star& star)
{
    Int elements = star.isKnown ? Int(1) : Int::Unknown();
    for (const Int dim : star.dims) {
        elements = elements * dim;
    }
    return elements;
}

inline Dimensions DimensionsOf(const char* text, const Star& star)
{
    Dimensions dimensions;
    for (const Int dim : star.dims) {
        dimensions.push_back({text, dim});
    }
    if (!star.isKnown) {
        dimensions.push_back({text, Int::Unknown(), true});
    }
    return dimensions;
}

inline Dimensions Joined(const std::vector<Dimensions>& parts)
{
    Dimensions joined;
    for (const Dimensions& part : parts) {
        joined.insert(joined.end(), part.begin(), part.end());
    }
    return joined;
}

inline Values ValuesOf(const Argument& argument)
{
    Values values;
    if (argument.isPresent && argument.areValuesKnown) {
        values.state = ValueState::kKnown;
        for (const int64_t value : argument.values) {
            values.items.emplace_back(value);
        }
    }
    return values;
}

/// Returns the values of an attribute that is a list; bools are 0 and 1.
template <typename T>
Values ValuesOf(const std::vector<T>& list)
{
    Values values{ValueState::kKnown};
    for (const T value : list) {
        values.items.emplace_back(static_cast<int64_t>(value));
    }
    return values;
}

/// Returns one value; a negative index counts from the end, and an index outside is an error.
inline Int ItemOf(const Values& values, Int index)
{
    const ValueState state = Joined(values.state, index.State());
    if (state != ValueState::kKnown) {
        return state == ValueState::kError ? Int::Error() : Int::Unknown();
    }
    const auto size = static_cast<int64_t>(values.items.size());
    const int64_t number = index.ValueOr(0);
    return number < -size || number >= size ? Int::Error()
                                            : values.items[static_cast<size_t>(number < 0 ? number + size : number)];
}

template <typename Source>
Values StepsOf(const Source& source)
{
    Values steps = ValuesOf(source);
    for (size_t i = steps.items.size(); i > 1; --i) {
        steps.items[i - 1] = steps.items[i - 1] - steps.items[i - 2];
    }
    return steps;
}

/// Returns the divisors in ascending order. A number above 2^40 is an error, so that trial division takes milliseconds.
inline Values DivisorsOf(Int number)
{
    constexpr int64_t kMaxDivided = int64_t{1} << 40;
    const int64_t value = number.ValueOr(1);
    if (!number.IsKnown() || value < 1 || value > kMaxDivided) {
        return {number.IsKnown() ? ValueState::kError : number.State()};
    }
    Values divisors{ValueState::kKnown};
    std::vector<Int> large;
    for (int64_t divisor = 1; divisor * divisor <= value; ++divisor) {
        if (value % divisor == 0) {
            divisors.items.emplace_back(divisor);
            if (divisor * divisor < value) {
                large.emplace_back(value / divisor);
            }
        }
    }
    divisors.items.insert(divisors.items.end(), large.rbegin(), large.rend());
    return divisors;
}

template <typename Body>
Int SumOver(const Values& values, Body body)
{
    Int sum = values.state == ValueState::kKnown   ? Int(0)
              : values.state == ValueState::kError ? Int::Error()
                                                   : Int::Unknown();
    for (const Int item : values.items) {
        sum = sum + body(item);
    }
    return sum;
}

template <typename Body>
Logic AllOf(const Values& values, Body body)
{
    Logic all(true, values.state);
    for (const Int item : values.items) {
        all = all && body(item);
    }
    return all;
}

/// Returns the values for which the condition is true.
template <typename Condition>
Values Those(const Values& values, Condition condition)
{
    Values those{values.state};
    for (const Int item : values.items) {
        const Logic holds = condition(item);
        if (holds.IsTrue()) {
            those.items.push_back(item);
            those.state = Joined(those.state, item.State());
        } else if (!holds.IsFalse()) {
            those.state = Joined(those.state, holds.IsError() ? ValueState::kError : ValueState::kUnknown);
        }
    }
    return those.state == ValueState::kKnown ? those : Values{those.state};
}

/// Returns the dtype of a kernel whose tensors may have different dtypes: float32 if they differ.
inline DataType Promoted(std::initializer_list<const Argument*> arguments)
{
    DataType promoted = DataType::kNone;
    for (const Argument* argument : arguments) {
        if (argument->isPresent && argument->dtype != DataType::kNone) {
            const bool isOther = promoted != DataType::kNone && promoted != argument->dtype;
            promoted = isOther ? DataType::kFloat32 : argument->dtype;
        }
    }
    return promoted;
}

/// A cast of a tensor to the dtype of a kernel.
struct CastPair {
    DataType from;
    DataType to;
};

inline DataType CastOf(DataType dtype, std::initializer_list<CastPair> casts)
{
    for (const CastPair& cast : casts) {
        if (cast.from == dtype) {
            return cast.to;
        }
    }
    return dtype;
}

inline std::string DtypeText(DataType dtype)
{
    for (const DtypeFacts& facts : kDtypes) {
        if (facts.dtype == dtype) {
            return facts.name;
        }
    }
    return "dtype " + std::to_string(static_cast<int32_t>(dtype));
}

inline std::string FormatText(Format format)
{
    for (const FormatFacts& facts : kFormats) {
        if (facts.format == format) {
            return facts.name;
        }
    }
    return "format " + std::to_string(static_cast<int32_t>(format));
}

/// Returns `a, b or c`.
inline std::string Alternatives(const std::vector<std::string>& words)
{
    std::string text;
    for (size_t i = 0; i < words.size(); ++i) {
        text += i == 0 ? "" : i + 1 == words.size() ? " or " : ", ";
        text += words[i];
    }
    return text;
}

inline std::string DimsText(const std::vector<Int>& dims)
{
    std::string text = "[";
    for (size_t axis = 0; axis < dims.size(); ++axis) {
        text += axis == 0 ? "" : ", ";
        text += dims[axis].IsKnown() ? std::to_string(dims[axis].ValueOr(0)) : "?";
    }
    return text + "]";
}

/// Returns the dimensions; negative ones are unknown.
inline std::vector<Int> KnownDims(const Argument& argument)
{
    std::vector<Int> dims;
    for (size_t axis = 0; axis < argument.dims.size(); ++axis) {
        dims.push_back(DimOf(argument, axis));
    }
    return dims;
}

inline std::string ShapeText(const Argument& argument)
{
    if (!argument.isPresent) {
        return "null";
    }
    if (!argument.isRankKnown) {
        return "a shape of unknown rank";
    }
    return "shape " + DimsText(KnownDims(argument));
}

inline std::string ValueText(int64_t value)
{
    return std::to_string(value);
}
inline std::string ValueText(bool value)
{
    return value ? "true" : "false";
}
inline std::string ValueText(float value)
{
    char text[32] = {};
    std::snprintf(text, sizeof(text), "%g", static_cast<double>(value));
    return text;
}
inline std::string ValueText(const char* value)
{
    return value == nullptr ? "null" : value;
}

/// Returns the first values of a list; the number of values of a long list.
template <typename T>
std::string ValueText(const std::vector<T>& values)
{
    constexpr size_t kShown = 8;
    std::string text = "[";
    for (size_t i = 0; i < values.size() && i < kShown; ++i) {
        text += (i == 0 ? "" : ", ") + ValueText(static_cast<T>(values[i]));
    }
    const bool isLong = values.size() > kShown;
    return text + (isLong ? ", ... " + std::to_string(values.size()) + " values]" : "]");
}
inline std::string ListText(const Argument& argument)
{
    return argument.isPresent && argument.areValuesKnown ? ValueText(argument.values) : ShapeText(argument);
}

inline MaybeViolation Broken(const Rule& rule, const std::string& parameter, const std::string& got,
                             const std::string& expected)
{
    return Violation{rule.label, rule.status,
                     std::string(rule.opType) + ": " + parameter + ": got " + got + ", expected " + expected + " [" +
                         rule.label + "]"};
}

/// Returns the text of a number or a list for a message.
inline std::string BlankText(Int value)
{
    return value.IsKnown() ? std::to_string(value.ValueOr(0)) : "(unknown)";
}
inline std::string BlankText(const Values& values)
{
    std::vector<int64_t> numbers;
    for (const Int item : values.items) {
        numbers.push_back(item.ValueOr(0));
    }
    return values.state == ValueState::kKnown ? ValueText(numbers) : "(unknown)";
}

/// Returns the violation of a condition of the spec; `got` is the value of its subject.
inline MaybeViolation BrokenCondition(const Rule& rule, Logic condition, const char* parameter, const std::string& got,
                                      const std::string& expected)
{
    return Broken(rule, parameter, condition.IsError() ? got + " (no 64-bit result)" : got, expected);
}

inline MaybeViolation CheckPresent(const Rule& rule, const Argument& argument)
{
    return argument.isPresent ? MaybeViolation() : Broken(rule, argument.name, "null", "a tensor");
}

inline MaybeViolation CheckAbsent(const Rule& rule, const Argument& argument)
{
    return argument.isPresent ? Broken(rule, argument.name, "a tensor", "null") : MaybeViolation();
}

inline MaybeViolation CheckDtype(const Rule& rule, const Argument& argument, const std::vector<DataType>& accepted)
{
    if (!argument.isPresent || argument.dtype == DataType::kNone ||
        std::find(accepted.begin(), accepted.end(), argument.dtype) != accepted.end()) {
        return {};
    }
    std::vector<std::string> expected;
    for (const DataType dtype : accepted) {
        expected.push_back(DtypeText(dtype));
    }
    return Broken(rule, argument.name, DtypeText(argument.dtype), Alternatives(expected));
}

inline MaybeViolation CheckSameDtype(const Rule& rule, const Argument& argument, const Argument& other)
{
    const bool isKnown = argument.isPresent && argument.dtype != DataType::kNone && other.dtype != DataType::kNone;
    if (!isKnown || argument.dtype == other.dtype) {
        return {};
    }
    return Broken(rule, argument.name, DtypeText(argument.dtype),
                  DtypeText(other.dtype) + ", the dtype of " + other.name);
}

/// Returns the first combination of dtypes that has the known dtypes of the arguments; nullptr if there is none.
inline const std::vector<DataType>* CombinationOf(const std::vector<const Argument*>& arguments,
                                                  const std::vector<std::vector<DataType>>& combinations)
{
    for (const std::vector<DataType>& combination : combinations) {
        bool isEqual = true;
        for (size_t i = 0; i < arguments.size(); ++i) {
            const DataType dtype = arguments[i]->isPresent ? arguments[i]->dtype : DataType::kNone;
            isEqual = isEqual && (dtype == DataType::kNone || dtype == combination[i]);
        }
        if (isEqual) {
            return &combination;
        }
    }
    return nullptr;
}

inline MaybeViolation CheckCombination(const Rule& rule, const std::vector<const Argument*>& arguments,
                                       const std::vector<std::vector<DataType>>& combinations)
{
    if (CombinationOf(arguments, combinations) != nullptr) {
        return {};
    }
    std::string got;
    for (const Argument* argument : arguments) {
        if (argument->isPresent && argument->dtype != DataType::kNone) {
            got += (got.empty() ? "" : ", ") + argument->name + " " + DtypeText(argument->dtype);
        }
    }
    return Broken(rule, "dtypes", got, "one of " + std::to_string(combinations.size()) + " combinations of dtypes");
}

inline MaybeViolation CheckFormat(const Rule& rule, const Argument& argument, const std::vector<Format>& accepted)
{
    if (!argument.isPresent || argument.format == Format::kUnknown ||
        std::find(accepted.begin(), accepted.end(), argument.format) != accepted.end()) {
        return {};
    }
    std::vector<std::string> expected;
    for (const Format format : accepted) {
        expected.push_back(FormatText(format));
    }
    return Broken(rule, argument.name, "storage format " + FormatText(argument.format), Alternatives(expected));
}

inline bool IsOneOf(Product product, std::initializer_list<Product> products)
{
    return std::find(products.begin(), products.end(), product) != products.end();
}

inline MaybeViolation CheckRank(const Rule& rule, const Argument& argument, size_t rank, const char* shapeText)
{
    if (!HasShape(argument) || argument.dims.size() == rank) {
        return {};
    }
    const std::string expected = std::to_string(rank) + (rank == 1 ? " dimension " : " dimensions ") + shapeText;
    return Broken(rule, argument.name, ShapeText(argument), expected);
}

/// Checks the rank of a shape with any number of dimensions, at least `least`.
inline MaybeViolation CheckRankRange(const Rule& rule, const Argument& argument, size_t least, const char* shapeText)
{
    constexpr size_t kMaxRank = 8;
    if (!HasShape(argument) || (argument.dims.size() >= least && argument.dims.size() <= kMaxRank)) {
        return {};
    }
    const std::string expected = std::to_string(least) + " to " + std::to_string(kMaxRank) + " dimensions " + shapeText;
    return Broken(rule, argument.name, ShapeText(argument), expected);
}

/// Compares the known dimensions of an input with those of the spec.
inline MaybeViolation CheckInputShape(const Rule& rule, const Argument& argument, const char* shapeText,
                                      const Dimensions& dimensions)
{
    if (!HasShape(argument)) {
        return {};
    }
    bool isOpen = false;
    bool isEqual = dimensions.size() == argument.dims.size();
    std::vector<Int> wanted;
    for (size_t axis = 0; axis < dimensions.size(); ++axis) {
        const Dimension& dimension = dimensions[axis];
        if (dimension.value.IsError()) {
            return Broken(rule, argument.name, std::string("no 64-bit result of ") + dimension.text, shapeText);
        }
        if (dimension.value.ValueOr(0) < 0) {
            return Broken(rule, argument.name,
                          std::string(dimension.text) + " = " + std::to_string(dimension.value.ValueOr(0)),
                          "a dimension of at least 0");
        }
        isOpen = isOpen || dimension.isOpen;
        isEqual = isEqual && !(DimOf(argument, axis) == dimension.value).IsFalse();
        wanted.push_back(dimension.value);
    }
    return isEqual || isOpen
               ? MaybeViolation()
               : Broken(rule, argument.name, ShapeText(argument), std::string(shapeText) + " = " + DimsText(wanted));
}

/// Checks the shape of an output like that of an input; the dimensions must exist even if the output is unknown.
inline MaybeViolation CheckOutputShape(const Rule& rule, const Argument& argument, const char* shapeText,
                                       const Dimensions& dimensions)
{
    Argument known = argument;
    if (!HasShape(argument)) {
        known.isPresent = true;
        known.isRankKnown = true;
        known.dims.assign(dimensions.size(), -1);
    }
    return CheckInputShape(rule, known, shapeText, dimensions);
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_CHECK_H
