#ifndef OPFORGE_OP_HOST_COMMON_TENSOR_LIST_H
#define OPFORGE_OP_HOST_COMMON_TENSOR_LIST_H

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/check.h"
#include "common/expression.h"

namespace opforge {

/// A list of tensors that is an argument of a call. An absent list has no elements.
struct ListArgument {
    const char* name;
    std::vector<Argument> elements = {};
};

/// The tensor at an index of a list; null if it is unknown or if the index is an error.
struct ListElement {
    const Argument* argument = nullptr;
    bool isError = false;
};

/// Sets the number of tensors. They have the names "x[0]", "x[1]" and so on.
inline void Resize(ListArgument& list, size_t count)
{
    for (size_t index = list.elements.size(); index < count; ++index) {
        list.elements.push_back({std::string(list.name) + "[" + std::to_string(index) + "]"});
    }
}

/// Returns a copy of the tensor at an index; an absent tensor after the last one.
inline Argument MemberOf(const ListArgument& list, size_t index)
{
    if (index < list.elements.size()) {
        return list.elements[index];
    }
    return {std::string(list.name) + "[" + std::to_string(index) + "]"};
}

/// Returns the first tensor, whose dtype is that of the list; an absent tensor if the list has none.
inline const Argument& FirstOf(const ListArgument& list)
{
    static const Argument absent{};
    return list.elements.empty() ? absent : list.elements.front();
}

/// Returns a tensor. A negative index counts from the end, and an index outside of a list with tensors is an error.
inline ListElement ElementOf(const ListArgument& list, Int index)
{
    const auto count = static_cast<int64_t>(list.elements.size());
    const int64_t number = index.ValueOr(0);
    if (index.IsError() || (index.IsKnown() && count != 0 && (number < -count || number >= count))) {
        return {nullptr, true};
    }
    if (!index.IsKnown() || count == 0) {
        return {};
    }
    return {&list.elements[static_cast<size_t>(number < 0 ? number + count : number)]};
}

inline Logic IsPresent(const ListArgument& list)
{
    return Logic(!list.elements.empty());
}

inline Dtype DtypeOf(const ListElement& element)
{
    return element.argument == nullptr ? Dtype(DataType::kNone) : DtypeOf(*element.argument);
}

inline Int Unavailable(const ListElement& element)
{
    return element.isError ? Int::Error() : Int::Unknown();
}

inline Int RankOf(const ListElement& element)
{
    return element.argument == nullptr ? Unavailable(element) : RankOf(*element.argument);
}

inline Int ElementsOf(const ListElement& element)
{
    return element.argument == nullptr ? Unavailable(element) : ElementsOf(*element.argument);
}

inline Int SizeOf(const ListElement& element, Int axis)
{
    if (element.isError || axis.IsError()) {
        return Int::Error();
    }
    return element.argument == nullptr ? Int::Unknown() : SizeOf(*element.argument, axis);
}

inline Int CountOf(const ListArgument& list)
{
    return Int(static_cast<int64_t>(list.elements.size()));
}

inline Values IndicesOf(const ListArgument& list)
{
    Values indices{ValueState::kKnown};
    for (size_t index = 0; index < list.elements.size(); ++index) {
        indices.items.emplace_back(static_cast<int64_t>(index));
    }
    return indices;
}

inline std::string CountText(int64_t count)
{
    return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

/// Returns the shapes of the first tensors, "2 tensors [4, ?], [3]".
inline std::string ShapeText(const ListArgument& list)
{
    constexpr size_t kShown = 8;
    if (list.elements.empty()) {
        return "no tensors";
    }
    std::string text = CountText(static_cast<int64_t>(list.elements.size()));
    for (size_t index = 0; index < list.elements.size() && index < kShown; ++index) {
        const Argument& tensor = list.elements[index];
        text += index == 0 ? " " : ", ";
        text += HasShape(tensor) ? DimsText(KnownDims(tensor)) : "?";
    }
    return text + (list.elements.size() > kShown ? ", ..." : "");
}

/// Returns the first violation in a list.
template <typename Check>
MaybeViolation CheckEach(const ListArgument& list, Check check)
{
    for (const Argument& tensor : list.elements) {
        if (MaybeViolation broken = check(tensor)) {
            return broken;
        }
    }
    return {};
}

inline MaybeViolation CheckPresent(const Rule& rule, const ListArgument& list, bool isOptional)
{
    if (list.elements.empty() && !isOptional) {
        return Broken(rule, list.name, "no tensors", "a list of tensors");
    }
    return CheckEach(list, [&rule](const Argument& tensor) { return CheckPresent(rule, tensor); });
}

inline MaybeViolation CheckAbsent(const Rule& rule, const ListArgument& list)
{
    return list.elements.empty() ? MaybeViolation() : Broken(rule, list.name, "a list of tensors", "null");
}

/// Checks that all tensors of a list have supported dtypes, and the dtype of the first one.
inline MaybeViolation CheckDtype(const Rule& rule, const ListArgument& list, const std::vector<DataType>& accepted)
{
    return CheckEach(list, [&](const Argument& tensor) {
        const MaybeViolation broken = CheckDtype(rule, tensor, accepted);
        return broken ? broken : CheckSameDtype(rule, tensor, FirstOf(list));
    });
}

inline MaybeViolation CheckSameDtype(const Rule& rule, const ListArgument& list, const Argument& other)
{
    return CheckEach(list, [&](const Argument& tensor) { return CheckSameDtype(rule, tensor, other); });
}

inline MaybeViolation CheckFormat(const Rule& rule, const ListArgument& list, const std::vector<Format>& accepted)
{
    return CheckEach(list, [&](const Argument& tensor) { return CheckFormat(rule, tensor, accepted); });
}

inline MaybeViolation CheckRank(const Rule& rule, const ListArgument& list, size_t rank, const char* shapeText)
{
    return CheckEach(list, [&](const Argument& tensor) { return CheckRank(rule, tensor, rank, shapeText); });
}

inline MaybeViolation CheckRankRange(const Rule& rule, const ListArgument& list, size_t least, const char* shapeText)
{
    return CheckEach(list, [&](const Argument& tensor) { return CheckRankRange(rule, tensor, least, shapeText); });
}

/// Checks that a list has the number of tensors of another one; an empty list is unknown or absent.
inline MaybeViolation CheckSameCount(const Rule& rule, const ListArgument& list, const ListArgument& other)
{
    if (list.elements.empty() || list.elements.size() == other.elements.size()) {
        return {};
    }
    return Broken(rule, list.name, CountText(static_cast<int64_t>(list.elements.size())),
                  std::to_string(other.elements.size()) + ", the number of tensors in " + other.name);
}

/// Checks the number of tensors in an output list.
inline MaybeViolation CheckCount(const Rule& rule, const ListArgument& list, const char* countText, Int count)
{
    constexpr int64_t kMostTensors = 1024;
    const int64_t known = count.ValueOr(1);
    if (count.IsError()) {
        return Broken(rule, list.name, std::string("no 64-bit result of ") + countText, "a number of tensors");
    }
    if (known < 1 || known > kMostTensors) {
        return Broken(rule, list.name, std::string(countText) + " = " + std::to_string(known),
                      "1 to " + std::to_string(kMostTensors) + " tensors");
    }
    const auto got = static_cast<int64_t>(list.elements.size());
    if (!count.IsKnown() || got == 0 || got == known) {
        return {};
    }
    return Broken(rule, list.name, CountText(got), std::string(countText) + " = " + std::to_string(known));
}

/// Checks the shapes of `count` tensors; `shapeOf` returns the shape at an index.
template <typename ShapeOf>
MaybeViolation CheckInputShapes(const Rule& rule, const ListArgument& list, const char* shapeText, ShapeOf shapeOf)
{
    for (size_t index = 0; index < list.elements.size(); ++index) {
        if (MaybeViolation broken = CheckInputShape(rule, list.elements[index], shapeText, shapeOf(index))) {
            return broken;
        }
    }
    return {};
}

template <typename ShapeOf>
MaybeViolation CheckOutputShapes(const Rule& rule, const ListArgument& list, const char* shapeText, size_t count,
                                 ShapeOf shapeOf)
{
    for (size_t index = 0; index < count; ++index) {
        if (MaybeViolation broken = CheckOutputShape(rule, MemberOf(list, index), shapeText, shapeOf(index))) {
            return broken;
        }
    }
    return {};
}

}  // namespace opforge

#endif  // OPFORGE_OP_HOST_COMMON_TENSOR_LIST_H
