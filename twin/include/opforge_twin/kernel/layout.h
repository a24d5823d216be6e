// Layout, coordinates and TensorTrait: compile-time descriptions of tensors.
#ifndef OPFORGE_TWIN_KERNEL_LAYOUT_H
#define OPFORGE_TWIN_KERNEL_LAYOUT_H

#include "opforge_twin/kernel/std.h"

namespace AscendC {

template <typename... T>
using Shape = Std::tuple<T...>;
template <typename... T>
using Stride = Std::tuple<T...>;
template <typename... T>
using Coord = Std::tuple<T...>;
template <typename... T>
using Tile = Std::tuple<T...>;

template <typename... T>
constexpr Shape<T...> MakeShape(const T&... sizes)
{
    return {sizes...};
}

template <typename... T>
constexpr Stride<T...> MakeStride(const T&... strides)
{
    return {strides...};
}

template <typename... T>
constexpr Coord<T...> MakeCoord(const T&... coordinates)
{
    return {coordinates...};
}

template <typename... T>
constexpr Tile<T...> MakeTile(const T&... sizes)
{
    return {sizes...};
}

template <typename T>
inline constexpr bool kIsTuple = false;
template <typename... T>
inline constexpr bool kIsTuple<Std::tuple<T...>> = true;

template <typename CoordType, typename ShapeType, typename StrideType>
constexpr auto Crd2Idx(const CoordType& coord, const ShapeType& shape, const StrideType& stride);

/// The index of one dimension. A scalar coordinate of nested sizes counts the first size fastest; the last size has no
/// limit.
template <size_t first = 0, typename ShapeType, typename StrideType>
constexpr int64_t SplitCoordinate(int64_t coordinate, const ShapeType& shape, const StrideType& stride)
{
    if constexpr (first + 1 == Std::tuple_size_v<ShapeType>) {
        return Crd2Idx(coordinate, Std::get<first>(shape), Std::get<first>(stride));
    } else {
        const auto size = static_cast<int64_t>(Std::get<first>(shape));
        return Crd2Idx(coordinate % size, Std::get<first>(shape), Std::get<first>(stride)) +
               SplitCoordinate<first + 1>(coordinate / size, shape, stride);
    }
}

template <typename CoordType, typename ShapeType, typename StrideType, size_t... dim>
constexpr int64_t SumCoordinates(const CoordType& coord, const ShapeType& shape, const StrideType& stride,
                                 Std::index_sequence<dim...> /*dimensions*/)
{
    return (int64_t{0} + ... +
            static_cast<int64_t>(Crd2Idx(Std::get<dim>(coord), Std::get<dim>(shape), Std::get<dim>(stride))));
}

/// Returns the index in memory of a coordinate.
template <typename CoordType, typename ShapeType, typename StrideType>
constexpr auto Crd2Idx(const CoordType& coord, const ShapeType& shape, const StrideType& stride)
{
    if constexpr (kIsTuple<CoordType>) {
        static_assert(Std::tuple_size_v<CoordType> == Std::tuple_size_v<ShapeType> &&
                          Std::tuple_size_v<ShapeType> == Std::tuple_size_v<StrideType>,
                      "coordinate, shape and stride have the same number of dimensions");
        return SumCoordinates(coord, shape, stride, Std::make_index_sequence<Std::tuple_size_v<CoordType>>{});
    } else if constexpr (kIsTuple<ShapeType>) {
        return SplitCoordinate(static_cast<int64_t>(coord), shape, stride);
    } else {
        return static_cast<int64_t>(coord) * static_cast<int64_t>(stride);
    }
}

}  // namespace AscendC

namespace opforge::twin::kernel {

/// The product of all sizes.
template <typename ShapeType>
constexpr size_t ProductOf(const ShapeType& shape)
{
    if constexpr (AscendC::kIsTuple<ShapeType>) {
        return std::apply([](const auto&... sizes) { return (size_t{1} * ... * ProductOf(sizes)); }, shape);
    } else {
        return static_cast<size_t>(shape);
    }
}

template <typename ShapeType, typename StrideType>
constexpr size_t SpanOf(const ShapeType& shape, const StrideType& stride);

template <typename ShapeType, typename StrideType, size_t... dim>
constexpr size_t SpanOfSizes(const ShapeType& shape, const StrideType& stride,
                             AscendC::Std::index_sequence<dim...> /*dimensions*/)
{
    size_t span = 0;
    ((span = AscendC::Std::max(span, SpanOf(AscendC::Std::get<dim>(shape), AscendC::Std::get<dim>(stride)))), ...);
    return span;
}

/// The largest product of a size and its stride.
template <typename ShapeType, typename StrideType>
constexpr size_t SpanOf(const ShapeType& shape, const StrideType& stride)
{
    if constexpr (AscendC::kIsTuple<ShapeType>) {
        return SpanOfSizes(shape, stride, AscendC::Std::make_index_sequence<AscendC::Std::tuple_size_v<StrideType>>{});
    } else {
        return static_cast<size_t>(shape) * static_cast<size_t>(stride);
    }
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Whether the type has all values, such as Std::Int<16>.
template <typename T>
inline constexpr bool kIsConstant = !Std::is_integral_v<T>;
template <typename... T>
inline constexpr bool kIsConstant<Std::tuple<T...>> = (kIsConstant<T> && ...);

template <typename ShapeType, typename StrideType>
struct Layout : private Std::tuple<ShapeType, StrideType> {
    constexpr Layout(const ShapeType& shape = {}, const StrideType& stride = {})
        : Std::tuple<ShapeType, StrideType>(shape, stride)
    {
    }

    /// The elements of a tensor with this layout: to the end of its largest dimension. Without strides, the elements
    /// have no gaps.
    constexpr uint32_t GetSize() const
    {
        const size_t span = opforge::twin::kernel::SpanOf(GetShape(), GetStride());
        return static_cast<uint32_t>(span == 0 ? opforge::twin::kernel::ProductOf(GetShape()) : span);
    }
    constexpr Layout& layout() { return *this; }
    constexpr const Layout& layout() const { return *this; }
    constexpr ShapeType& GetShape() { return Std::get<0>(Both()); }
    constexpr const ShapeType& GetShape() const { return Std::get<0>(Both()); }
    constexpr StrideType& GetStride() { return Std::get<1>(Both()); }
    constexpr const StrideType& GetStride() const { return Std::get<1>(Both()); }
    template <typename CoordType>
    constexpr auto operator()(const CoordType& coord) const
    {
        return Crd2Idx(coord, GetShape(), GetStride());
    }

private:
    constexpr Std::tuple<ShapeType, StrideType>& Both() { return *this; }
    constexpr const Std::tuple<ShapeType, StrideType>& Both() const { return *this; }
};

template <typename ShapeType, typename StrideType>
constexpr auto MakeLayout(const ShapeType& shape, const StrideType& stride)
{
    static_assert(kIsTuple<ShapeType> && kIsTuple<StrideType>, "MakeLayout takes the results of MakeShape, MakeStride");
    return Layout<ShapeType, StrideType>(shape, stride);
}

template <typename CoordType, typename ShapeType, typename StrideType>
constexpr auto Crd2Idx(const CoordType& coord, const Layout<ShapeType, StrideType>& layout)
{
    return layout(coord);
}

template <typename ShapeType, typename StrideType>
inline constexpr bool kIsConstant<Layout<ShapeType, StrideType>> = kIsConstant<ShapeType> && kIsConstant<StrideType>;

template <typename T>
struct is_layout : Std::false_type {};
template <typename ShapeType, typename StrideType>
struct is_layout<Layout<ShapeType, StrideType>> : Std::true_type {};
template <typename T>
inline constexpr bool is_layout_v = is_layout<T>::value;

template <typename T, TPosition pos = TPosition::GM, typename LayoutType = Layout<Shape<>, Stride<>>>
struct TensorTrait {
    using LiteType = T;
    using LiteLayoutType = LayoutType;
    static constexpr TPosition tPos = pos;

    TensorTrait(const LayoutType& layout = {}) : layout_(layout) {}
    LayoutType& GetLayout() { return layout_; }
    const LayoutType& GetLayout() const { return layout_; }
    void SetLayout(const LayoutType& layout) { layout_ = layout; }
    decltype(auto) GetShape() const { return layout_.GetShape(); }
    decltype(auto) GetStride() const { return layout_.GetStride(); }

private:
    LayoutType layout_;
};

template <typename T, TPosition pos, typename LayoutType>
auto MakeTensorTrait(const LayoutType& layout)
{
    return TensorTrait<T, pos, LayoutType>(layout);
}

template <typename T>
struct is_tensorTrait : Std::false_type {};
template <typename T, TPosition pos, typename LayoutType>
struct is_tensorTrait<TensorTrait<T, pos, LayoutType>> : Std::true_type {};
template <typename T>
inline constexpr bool is_tensorTrait_v = is_tensorTrait<T>::value;

}  // namespace AscendC

namespace opforge::twin::kernel {

template <typename T, AscendC::TPosition pos, typename LayoutType>
struct ElementOf<AscendC::TensorTrait<T, pos, LayoutType>> {
    using Type = T;
};

/// The members of tensors of a TensorTrait; plain tensors have none of them.
template <typename T>
class TraitMembers {};
template <typename T, AscendC::TPosition pos, typename LayoutType>
class TraitMembers<AscendC::TensorTrait<T, pos, LayoutType>> {
    using Trait = AscendC::TensorTrait<T, pos, LayoutType>;

public:
    Trait& GetTensorTrait() { return trait_; }
    const Trait& GetTensorTrait() const { return trait_; }
    void SetTensorTrait(const Trait& newTrait) { trait_ = newTrait; }
    decltype(auto) GetLayout() const { return trait_.GetLayout(); }
    decltype(auto) GetShape() const { return trait_.GetShape(); }
    decltype(auto) GetStride() const { return trait_.GetStride(); }

private:
    Trait trait_;
};

/// The position of the TensorTrait T.
template <typename T>
constexpr AscendC::TPosition TraitPosition()
{
    static_assert(kIsTrait<T>, "a tensor without a position or a size needs a TensorTrait with both");
    if constexpr (kIsTrait<T>) {
        static_assert(T::tPos != AscendC::TPosition::GM && T::tPos != AscendC::TPosition::MAX,
                      "TensorTrait: the tensor needs a position of on-chip memory");
        return T::tPos;
    }
    return AscendC::TPosition::MAX;
}

/// The number of elements of the TensorTrait T.
template <typename T>
constexpr uint32_t TraitElements()
{
    if constexpr (kIsTrait<T>) {
        using Layout = typename T::LiteLayoutType;
        constexpr uint32_t elements = AscendC::kIsConstant<Layout> ? Layout{}.GetSize() : 0;
        static_assert(
            elements > 0 && BytesOf<T>(elements) % 32 == 0,
            "TensorTrait: the tensor needs a layout of constants, for example Std::Int<16>, with a multiple of "
            "32 bytes");
        return elements;
    }
    return 0;
}

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_LAYOUT_H
