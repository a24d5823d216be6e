#include "host/aclnn/element_tasks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "host/aclnn/open_view.h"
#include "host/ge/visit_type.h"

namespace opforge::twin::host {

namespace {

using RowFunction = void (*)(const uint8_t* from, int64_t fromStride, uint8_t* to, int64_t toStride, int64_t count);

template <typename From, typename To>
To ConvertedElement(From value)
{
    constexpr bool kFromInteger = std::is_integral_v<From>;
    if constexpr (std::is_same_v<From, To>) {
        return value;
    } else if constexpr (std::is_same_v<To, bool>) {
        return static_cast<double>(value) != 0;
    } else if constexpr (!std::is_integral_v<To> || kFromInteger) {
        return static_cast<To>(value);
    } else {
        const double number = std::trunc(static_cast<double>(static_cast<float>(value)));
        const auto low = static_cast<double>(std::numeric_limits<To>::min());
        const auto high = static_cast<double>(std::numeric_limits<To>::max());
        if (std::isnan(number)) {
            return 0;
        }
        return number <= low    ? std::numeric_limits<To>::min()
               : number >= high ? std::numeric_limits<To>::max()
                                : static_cast<To>(number);
    }
}

template <typename From, typename To>
void ConvertRow(const uint8_t* from, int64_t fromStride, uint8_t* to, int64_t toStride, int64_t count)
{
    const auto* source = reinterpret_cast<const From*>(from);
    auto* target = reinterpret_cast<To*>(to);
    for (int64_t i = 0; i < count; ++i) {
        target[i * toStride] = ConvertedElement<From, To>(source[i * fromStride]);
    }
}

template <size_t bytes>
void CopyRow(const uint8_t* from, int64_t fromStride, uint8_t* to, int64_t toStride, int64_t count)
{
    if (fromStride == 1 && toStride == 1) {
        std::memmove(to, from, static_cast<size_t>(count) * bytes);
        return;
    }
    constexpr auto kBytes = static_cast<int64_t>(bytes);
    for (int64_t i = 0; i < count; ++i) {
        std::memcpy(to + i * toStride * kBytes, from + i * fromStride * kBytes, bytes);
    }
}

/// Cast has no unsigned types of several bytes.
template <typename T>
constexpr bool kIsConvertible = !std::is_unsigned_v<T> || sizeof(T) == 1;

RowFunction ConversionOf(ge::DataType from, ge::DataType to)
{
    RowFunction row = nullptr;
    VisitType(from, [&](auto source) {
        VisitType(to, [&](auto target) {
            if constexpr (kIsConvertible<decltype(source)> && kIsConvertible<decltype(target)>) {
                row = ConvertRow<decltype(source), decltype(target)>;
            }
        });
    });
    return row;
}

RowFunction CopyOf(uint64_t bytes)
{
    switch (bytes) {
        case 1:
            return CopyRow<1>;
        case 2:
            return CopyRow<2>;
        case 4:
            return CopyRow<4>;
        case 8:
            return CopyRow<8>;
        default:
            return CopyRow<16>;
    }
}

/// Applies `row` to each row; the last dim is the row.
void Walk(RowFunction row, const View& from, const uint8_t* source, const View& to, uint8_t* target)
{
    const size_t rank = from.dims.size();
    if (from.Elements() == 0) {
        return;
    }
    const int64_t count = rank == 0 ? 1 : from.dims[rank - 1];
    const int64_t fromStride = rank == 0 ? 1 : from.strides[rank - 1];
    const int64_t toStride = rank == 0 ? 1 : to.strides[rank - 1];
    std::vector<int64_t> index(rank, 0);
    for (;;) {
        int64_t fromOffset = 0;
        int64_t toOffset = 0;
        for (size_t i = 0; i + 1 < rank; ++i) {
            fromOffset += index[i] * from.strides[i];
            toOffset += index[i] * to.strides[i];
        }
        row(source + fromOffset * static_cast<int64_t>(from.ItemBytes()), fromStride,
            target + toOffset * static_cast<int64_t>(to.ItemBytes()), toStride, count);
        size_t dim = rank;
        while (dim > 1 && ++index[dim - 2] == from.dims[dim - 2]) {
            index[dim - 2] = 0;
            --dim;
        }
        if (dim <= 1) {
            return;
        }
    }
}

class ElementTask : public PlannedTask {
public:
    ElementTask(std::string operation, View from, View to)
        : operation_(std::move(operation)), from_(std::move(from)), to_(std::move(to))
    {
        row_ = from_.dtype == to_.dtype ? CopyOf(from_.ItemBytes()) : ConversionOf(from_.dtype, to_.dtype);
    }

    std::vector<View> Views() const override { return {from_, to_}; }

    Task Place(const std::vector<PlacedView>& views, void* scratch) const override
    {
        (void)scratch;
        return [operation = operation_, row = row_, from = views[0], to = views[1]]() -> TaskResult {
            OpenView source;
            OpenView target;
            std::string problem;
            if (!Open(from, source, problem) || !Open(to, target, problem)) {
                return DeviceFailure(operation, problem);
            }
            Walk(row, from.view, source.data, to.view, target.data);
            return {};
        };
    }

private:
    std::string operation_;
    View from_;
    View to_;
    RowFunction row_;
};

}  // namespace

void AddElementTask(aclOpExecutor& executor, const std::string& operation, View from, View to)
{
    AddTask(executor, std::make_unique<ElementTask>(operation, std::move(from), std::move(to)));
}

bool IsConvertible(ge::DataType dtype)
{
    return ConversionOf(dtype, dtype) != nullptr;
}

}  // namespace opforge::twin::host
