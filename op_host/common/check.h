#ifndef OPFORGE_OP_HOST_COMMON_CHECK_H
#define OPFORGE_OP_HOST_COMMON_CHECK_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "common/expression.h"
#include "common/plan.h"

namespace opforge {

/// A tensor argument of a call, and what is known of it. Negative dimensions and a dtype of kNone are unknown.
struct Argument {
    const char* name;
    bool isPresent = false;
    bool isRankKnown = true;
    std::vector<int64_t> dims = {};
    DataType dtype = DataType::kNone;
};

/// A labelled constraint of an operator and the status that its violation gives.
struct Rule {
    const char* opType;
    const char* label;
    int32_t status;
};

/// The first constraint that a call breaks. The message has operator, parameter, got, expected and label.
struct Violation {
    const char* label;
    int32_t status;
    std::string message;
};

using Verdict = std::optional<Violation>;

/// One dimension of a shape: its text in the spec and its value.
struct Dimension {
    const char* text;
    Int value;
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

/// Dimension `axis`; unknown where the argument or its rank is.
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

inline std::string DtypeText(DataType dtype)
{
    struct Word {
        int32_t number;
        const char* text;
    };
    // Numbers of ge::DataType.
    constexpr Word words[] = {{0, "float32"},  {1, "float16"}, {2, "int8"},     {3, "int32"}, {4, "uint8"},
                              {6, "int16"},    {7, "uint16"},  {8, "uint32"},   {9, "int64"}, {10, "uint64"},
                              {11, "float64"}, {12, "bool"},   {27, "bfloat16"}};
    for (const Word& word : words) {
        if (word.number == static_cast<int32_t>(dtype)) {
            return word.text;
        }
    }
    return "dtype " + std::to_string(static_cast<int32_t>(dtype));
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

inline std::string ShapeText(const Argument& argument)
{
    if (!argument.isPresent) {
        return "null";
    }
    if (!argument.isRankKnown) {
        return "a shape of unknown rank";
    }
    std::vector<Int> dims;
    for (size_t axis = 0; axis < argument.dims.size(); ++axis) {
        dims.push_back(DimOf(argument, axis));
    }
    return "shape " + DimsText(dims);
}

inline std::string ValueText(int64_t value)
{
    return std::to_string(value);
}
inline std::string ValueText(bool value)
{
    return value ? "true" : "false";
}

inline Verdict Broken(const Rule& rule, const char* parameter, const std::string& got, const std::string& expected)
{
    return Violation{rule.label, rule.status,
                     std::string(rule.opType) + ": " + parameter + ": got " + got + ", expected " + expected + " [" +
                         rule.label + "]"};
}

/// A condition of the spec that does not hold; `got` is the value of the parameter it is about.
inline Verdict BrokenCondition(const Rule& rule, Logic condition, const char* parameter, const std::string& got,
                               const char* expected)
{
    return Broken(rule, parameter, condition.IsError() ? got + " (no 64-bit result)" : got, expected);
}

inline Verdict CheckPresent(const Rule& rule, const Argument& argument)
{
    return argument.isPresent ? Verdict() : Broken(rule, argument.name, "null", "a tensor");
}

inline Verdict CheckAbsent(const Rule& rule, const Argument& argument)
{
    return argument.isPresent ? Broken(rule, argument.name, "a tensor", "null") : Verdict();
}

inline Verdict CheckDtype(const Rule& rule, const Argument& argument, std::initializer_list<DataType> accepted)
{
    if (!argument.isPresent || argument.dtype == DataType::kNone ||
        std::find(accepted.begin(), accepted.end(), argument.dtype) != accepted.end()) {
        return {};
    }
    std::string expected;
    for (const DataType* dtype = accepted.begin(); dtype != accepted.end(); ++dtype) {
        const bool isLast = dtype + 1 == accepted.end();
        expected += dtype == accepted.begin() ? "" : isLast ? " or " : ", ";
        expected += DtypeText(*dtype);
    }
    return Broken(rule, argument.name, DtypeText(argument.dtype), expected);
}

inline Verdict CheckSameDtype(const Rule& rule, const Argument& argument, const Argument& other)
{
    const bool isKnown = argument.isPresent && argument.dtype != DataType::kNone && other.dtype != DataType::kNone;
    if (!isKnown || argument.dtype == other.dtype) {
        return {};
    }
    return Broken(rule, argument.name, DtypeText(argument.dtype),
                  DtypeText(other.dtype) + ", the dtype of " + other.name);
}

inline Verdict CheckRank(const Rule& rule, const Argument& argument, size_t rank, const char* shapeText)
{
    if (!HasShape(argument) || argument.dims.size() == rank) {
        return {};
    }
    const std::string expected = std::to_string(rank) + (rank == 1 ? " dimension " : " dimensions ") + shapeText;
    return Broken(rule, argument.name, ShapeText(argument), expected);
}

/// Compares the known dimensions of an input with the spec's.
inline Verdict CheckInputShape(const Rule& rule, const Argument& argument, const char* shapeText,
                               const std::vector<Dimension>& dimensions)
{
    if (!HasShape(argument)) {
        return {};
    }
    bool isEqual = true;
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
        isEqual = isEqual && !(DimOf(argument, axis) == dimension.value).IsFalse();
        wanted.push_back(dimension.value);
    }
    return isEqual
               ? Verdict()
               : Broken(rule, argument.name, ShapeText(argument), std::string(shapeText) + " = " + DimsText(wanted));
}

/// As CheckInputShape; the dimensions must exist even if the output is not known yet.
inline Verdict CheckOutputShape(const Rule& rule, const Argument& argument, const char* shapeText,
                                const std::vector<Dimension>& dimensions)
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
