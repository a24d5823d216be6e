// LocalMemAllocator: tensors at fixed addresses, for kernels without a TPipe.
#ifndef OPFORGE_TWIN_KERNEL_LOCAL_ALLOCATOR_H
#define OPFORGE_TWIN_KERNEL_LOCAL_ALLOCATOR_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/layout.h"
#include "opforge_twin/kernel/system.h"
#include "opforge_twin/kernel/tensor.h"

namespace AscendC {

enum class Hardware : uint8_t { GM = 0, UB = 1, L1 = 2, L0A = 3, L0B = 4, L0C = 5, BIAS = 6, FIXBUF = 7, MAX = 8 };

}  // namespace AscendC

namespace opforge::twin::kernel {

/// The memory of a position; GM if it has no tensors of this core.
constexpr AscendC::Hardware HardwareOf(AscendC::TPosition position)
{
    using AscendC::Hardware;
    using AscendC::TPosition;
    switch (position) {
        case TPosition::VECIN:
        case TPosition::VECOUT:
        case TPosition::VECCALC:
            return Hardware::UB;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM:
            return Hardware::L1;
        case TPosition::A2:
            return Hardware::L0A;
        case TPosition::B2:
            return Hardware::L0B;
        case TPosition::CO1:
            return Hardware::L0C;
        case TPosition::C2:
            return Hardware::BIAS;
        case TPosition::C2PIPE2GM:
            return Hardware::FIXBUF;
        default:
            return Hardware::GM;
    }
}

constexpr AscendC::TPosition DefaultPosition(AscendC::Hardware hardware)
{
    using AscendC::TPosition;
    constexpr TPosition positions[] = {TPosition::GM, TPosition::VECCALC, TPosition::A1, TPosition::A2,
                                       TPosition::B2, TPosition::CO1,     TPosition::C2, TPosition::C2PIPE2GM};
    return positions[static_cast<uint8_t>(hardware)];
}

}  // namespace opforge::twin::kernel

namespace AscendC {

/// Places tensors one after the other, from address 0 of a memory.
template <Hardware hard = Hardware::UB>
class LocalMemAllocator {
public:
    static_assert(hard != Hardware::GM && hard != Hardware::MAX,
                  "LocalMemAllocator places tensors in UB, L1, L0A, L0B, L0C, BIAS or FIXBUF");
    static constexpr TPosition kPosition = twin::DefaultPosition(hard);

    uint32_t GetCurAddr() const { return head_; }
    template <TPosition pos, class DataType, uint32_t tileSize>
    OPFORGE_API LocalTensor<DataType> Alloc()
    {
        return Place<pos, DataType>(tileSize, twin::Here());
    }
    template <class DataType, uint32_t tileSize>
    OPFORGE_API LocalTensor<DataType> Alloc()
    {
        return Place<kPosition, DataType>(tileSize, twin::Here());
    }
    template <TPosition pos, class DataType>
    OPFORGE_API LocalTensor<DataType> Alloc(uint32_t tileSize)
    {
        return Place<pos, DataType>(tileSize, twin::Here());
    }
    template <class DataType>
    OPFORGE_API LocalTensor<DataType> Alloc(uint32_t tileSize)
    {
        return Place<kPosition, DataType>(tileSize, twin::Here());
    }
    /// A tensor with the position and the layout of a TensorTrait.
    template <class DataType>
    OPFORGE_API LocalTensor<DataType> Alloc()
    {
        return PlaceTrait<DataType>(twin::TraitElements<DataType>(), twin::Here());
    }
    /// The same; variables can give the layout.
    template <class DataType, typename LayoutType>
    OPFORGE_API std::enable_if_t<is_layout_v<LayoutType>, LocalTensor<DataType>> Alloc(const LayoutType& layout)
    {
        return PlaceTrait<DataType>(layout.GetSize(), twin::Here());
    }

private:
    template <class DataType>
    LocalTensor<DataType> PlaceTrait(uint32_t tileSize, const twin::Location& at)
    {
        constexpr TPosition pos = twin::TraitPosition<DataType>();
        return Place<pos, PrimT<DataType>>(tileSize, at).template ReinterpretCast<DataType>();
    }
    template <TPosition pos, class DataType>
    LocalTensor<DataType> Place(uint32_t tileSize, const twin::Location& at)
    {
        static_assert(!is_tensorTrait<DataType>::value,
                      "LocalMemAllocator: a TensorTrait gives position and size; use Alloc<T>()");
        static_assert(twin::HardwareOf(pos) == hard, "the position is in another memory than the allocator");
        const int64_t bytes = twin::BytesOf<DataType>(tileSize);
        const LocalTensor<DataType> tensor(twin::ViewAt(pos, head_, bytes, {"LocalMemAllocator::Alloc", at}), pos);
        head_ = static_cast<uint32_t>(opforge::twin::RoundUp(int64_t{head_} + bytes, opforge::twin::kBlockBytes));
        return tensor;
    }

    uint32_t head_ = 0;
};

/// Sets `tensor` to all memory of `pos` that no buffer has.
template <typename T, TPosition pos>
OPFORGE_API bool PopStackBuffer(LocalTensor<T>& tensor)
{
    const twin::LocalView view = twin::RemainingMemory(pos, {"PopStackBuffer", twin::Here()});
    tensor = LocalTensor<T>(view, pos);
    return view.end > view.begin;
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_LOCAL_ALLOCATOR_H
