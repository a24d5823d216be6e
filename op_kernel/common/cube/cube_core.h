// Matrix products on one cube core: operands use halves of L1, L0A and L0B; sums accumulate in cells of L0C.
#ifndef OPFORGE_OP_KERNEL_COMMON_CUBE_CUBE_CORE_H
#define OPFORGE_OP_KERNEL_COMMON_CUBE_CUBE_CORE_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/cube/l1_matrix.h"

namespace opforge {
namespace kernel {

/// T: dtype of the factors. L1 has slots for each operand; the caller defines their offsets. An operand is loaded
/// between BeginLoad and EndLoad into one slot while another one is multiplied. It stays there from BeginUse to EndUse,
/// for one or more products.
template <typename T>
class CubeCore {
public:
    struct Sizes {
        int32_t l1Bytes;
        int32_t l0Half;
        int32_t l0cBytes;
    };

    static constexpr int32_t kUnit = L1Matrix<T>::kUnit;
    static constexpr int32_t kFractal = 16;

    __aicore__ inline void Init(AscendC::TPipe* pipe, const Sizes& sizes)
    {
        sizes_ = sizes;
        pipe->InitBuffer(l1_, static_cast<uint32_t>(sizes.l1Bytes));
        pipe->InitBuffer(l0a_, static_cast<uint32_t>(2 * sizes.l0Half));
        pipe->InitBuffer(l0b_, static_cast<uint32_t>(2 * sizes.l0Half));
        pipe->InitBuffer(l0c_, static_cast<uint32_t>(sizes.l0cBytes));
    }

    __aicore__ inline void Begin()
    {
        for (int32_t slot = 0; slot < kMaxSlots; ++slot) {
            EndUse(Operand::kLeft, slot);
            EndUse(Operand::kRight, slot);
        }
        for (int32_t half = 0; half < kHalves; ++half) {
            AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(half);
        }
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kHalves + (rightHalf_ ^ 1));
    }

    __aicore__ inline void End()
    {
        SetCells(0, 1);
        for (int32_t slot = 0; slot < kMaxSlots; ++slot) {
            BeginLoad(Operand::kLeft, slot);
            BeginLoad(Operand::kRight, slot);
        }
        for (int32_t half = 0; half < kHalves; ++half) {
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(half);
        }
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kHalves + (rightHalf_ ^ 1));
    }

    /// Divides L0C into slots of `slotFloats` for cells of `cellFloats`, which are a multiple of 16 rows and columns;
    /// 0: there are no slots. Other slots wait until all cells are stored.
    __aicore__ inline void SetCells(int32_t slotFloats, int32_t cellFloats)
    {
        if (slotFloats == slotFloats_ && cellFloats == cellFloats_) {
            return;
        }
        Release();
        cellFloats_ = cellFloats;
        slotCells_ = slotFloats / cellFloats;
        if (slotFloats == slotFloats_) {
            return;
        }
        for (int32_t slot = 0; slot < slots_; ++slot) {
            AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
        }
        slotFloats_ = slotFloats;
        const int64_t fitting =
            slotFloats == 0 ? 0 : sizes_.l0cBytes / static_cast<int32_t>(sizeof(float)) / slotFloats;
        slots_ = static_cast<int32_t>(Smaller(kMaxL0cSlots, fitting));
        firstSlot_ = openSlots_ = 0;
        for (int32_t slot = 0; slot < slots_; ++slot) {
            AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
        }
    }

    __aicore__ inline void BeginLoad(Operand operand, int32_t slot)
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE2>(EventOf(operand, slot));
    }
    __aicore__ inline void EndLoad(Operand operand, int32_t slot)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE2_MTE1>(EventOf(operand, slot));
    }
    __aicore__ inline void BeginUse(Operand operand, int32_t slot)
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE2_MTE1>(EventOf(operand, slot));
        if (operand == Operand::kRight) {
            held_[0].k = held_[1].k = 0;  // L1 has other elements now
        }
    }
    __aicore__ inline void EndUse(Operand operand, int32_t slot)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(EventOf(operand, slot));
    }

    /// Returns the matrix that begins at an element of L1.
    __aicore__ inline L1Matrix<T> Matrix(int64_t element, int32_t pitch)
    {
        return {l1_.Get<T>()[static_cast<uint32_t>(element)], pitch, element};
    }

    /// Loads `rows` x `columns` elements whose rows are `stride` elements apart. The last 32 bytes of a row are padded
    /// with zeros.
    __aicore__ inline void LoadRows(const L1Matrix<T>& destination, const AscendC::GlobalTensor<T>& source,
                                    int64_t rows, int64_t columns, int64_t stride)
    {
        // Rows with a larger distance than the field of the instruction are loaded one by one.
        const int64_t burst = stride <= kMaxStride ? rows : 1;
        for (int64_t row = 0; row < rows; row += burst) {
            AscendC::Nd2NzParams matrix;
            matrix.ndNum = 1;
            matrix.nValue = static_cast<uint16_t>(burst);
            matrix.dValue = static_cast<uint16_t>(columns);
            matrix.srcDValue = static_cast<uint16_t>(burst == 1 ? columns : stride);
            matrix.dstNzC0Stride = static_cast<uint16_t>(destination.pitch);
            matrix.dstNzNStride = 1;
            AscendC::DataCopy(destination.From(row, 0).data, source[static_cast<uint64_t>(row * stride)], matrix);
        }
    }

    /// Fills `rows` rows of `columns` elements with zeros, including the last 32 bytes.
    __aicore__ inline void ZeroRows(const L1Matrix<T>& destination, int64_t rows, int64_t columns)
    {
        if (rows > 0) {
            AscendC::InitConstValueParams<half> zeros;
            zeros.repeatTimes = static_cast<uint16_t>(CeilDiv(columns, kUnit));
            zeros.blockNum = static_cast<uint16_t>(rows);
            zeros.dstGap = static_cast<uint16_t>(destination.pitch - rows);
            zeros.initValue = static_cast<half>(0.0f);
            AscendC::InitConstValue(destination.data.template ReinterpretCast<half>(), zeros);
        }
    }

    /// Allocates the next `count` cells, which are empty. They are free again after they are stored.
    __aicore__ inline void OpenCells(int32_t count)
    {
        Release();
        firstSlot_ = (firstSlot_ + openSlots_) % slots_;
        openSlots_ = static_cast<int32_t>(CeilDiv(count, slotCells_));
        filled_ = 0;
    }

    /// cell += left x right: `m` x `depth` by `depth` x `n` elements. The right operand has the depth `total`; the
    /// product uses it from `first` on. An operand that fits into a half of L0B stays there for the next products.
    template <Operands operands>
    __aicore__ inline void Multiply(int32_t cell, const L1Matrix<T>& left, const L1Matrix<T>& right, int32_t m,
                                    int32_t n, int32_t depth, int32_t first, int32_t total)
    {
        const bool isHeld = first % kFractal == 0 && LongestDepth(n) >= total;
        const int64_t longest = isHeld ? LongestDepth(m) : Smaller(LongestDepth(m), LongestDepth(n));
        const int64_t slices = Larger(CeilDiv(depth, longest), 1);
        const int32_t slice = static_cast<int32_t>(RoundUp(CeilDiv(depth, slices), kFractal));
        for (int32_t done = 0; done < depth; done += slice) {
            const int32_t k = static_cast<int32_t>(Smaller(slice, depth - done));
            if (isHeld) {
                Hold<operands>(right, n, total);
            } else {
                Hold<operands>(FromDepth<operands>(right, first + done), n, k);
            }
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(leftHalf_);
            LoadLeft<operands>(left, m, k, done);
            const int64_t skipped = isHeld ? (first + done) * RoundUp(n, kFractal) : 0;
            Add(cell, L0b()[static_cast<uint32_t>(skipped)], m, n, k, operands == Operands::kDepthOutside);
        }
    }

    /// Sets the cell to zeros if nothing was added to it.
    __aicore__ inline void FillUp(int32_t cell, int32_t m, int32_t n)
    {
        if (IsFilled(cell)) {
            return;
        }
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(leftHalf_);
        UseHalf(rightHalf_ ^ 1);
        held_[rightHalf_].k = 0;
        Zero(L0a(), CeilDiv(m, kFractal));
        Zero(L0b(), CeilDiv(n, kFractal));
        Add(cell, L0b(), m, n, kUnit, false);
    }

    /// Stores `rows` x `columns` elements of a cell of `m` rows; rows are `stride` elements apart.
    template <typename D>
    __aicore__ inline void Store(int32_t cell, const AscendC::GlobalTensor<D>& destination, int64_t rows,
                                 int64_t columns, int64_t m, int64_t stride)
    {
        const int32_t slot = SlotOf(cell);
        AscendC::SetFlag<AscendC::HardEvent::M_FIX>(slot);
        AscendC::WaitFlag<AscendC::HardEvent::M_FIX>(slot);
        AscendC::FixpipeParamsV220 store;
        store.nSize = static_cast<uint16_t>(columns);
        store.mSize = static_cast<uint16_t>(rows);
        store.srcStride = static_cast<uint16_t>(RoundUp(m, kFractal));
        store.dstStride = static_cast<uint32_t>(stride);
        store.quantPre = Conversion(D());
        store.deqScalar = 0;
        AscendC::Fixpipe<D, float>(destination, Cell(cell), store);
        if (slotCells_ == 1) {
            Release(slot);
        }
    }

private:
    static constexpr int32_t kHalves = 2;
    static constexpr int32_t kMaxSlots = 4;     // maximum slots per operand
    static constexpr int64_t kMaxL0cSlots = 8;  // each slot has an event
    static constexpr int64_t kMaxStride = 65535;
    // If a product has fewer blocks, they may be incomplete when the next product reads the cell.
    static constexpr int32_t kBlocksInFlight = 10;

    /// The right operand in a half of L0B: its first element in L1, its columns and its depth (0: none).
    struct Held {
        int64_t begin;
        int32_t n;
        int32_t k;
    };

    static __aicore__ inline QuantMode_t Conversion(half) { return QuantMode_t::F322F16; }
    static __aicore__ inline QuantMode_t Conversion(bfloat16_t) { return QuantMode_t::F322BF16; }
    static __aicore__ inline QuantMode_t Conversion(float) { return QuantMode_t::NoQuant; }

    __aicore__ inline static int32_t EventOf(Operand operand, int32_t slot)
    {
        return kMaxSlots * static_cast<int32_t>(operand) + slot;
    }
    __aicore__ inline AscendC::LocalTensor<T> L0a()
    {
        return l0a_.Get<T>()[static_cast<uint32_t>(leftHalf_ * (sizes_.l0Half / static_cast<int32_t>(sizeof(T))))];
    }
    __aicore__ inline AscendC::LocalTensor<T> L0b()
    {
        return l0b_.Get<T>()[static_cast<uint32_t>(rightHalf_ * (sizes_.l0Half / static_cast<int32_t>(sizeof(T))))];
    }
    __aicore__ inline int32_t SlotOf(int32_t cell) const { return (firstSlot_ + cell / slotCells_) % slots_; }
    __aicore__ inline AscendC::LocalTensor<float> Cell(int32_t cell)
    {
        return l0c_.Get<float>()[static_cast<uint32_t>(SlotOf(cell) * slotFloats_ + cell % slotCells_ * cellFloats_)];
    }
    /// Lets the cube use a slot, or all slots, after the stores so far.
    __aicore__ inline void Release(int32_t slot)
    {
        if ((used_ >> slot & 1) != 0) {
            used_ ^= 1 << slot;
            AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
        }
    }
    __aicore__ inline void Release()
    {
        for (int32_t slot = 0; slot < slots_; ++slot) {
            Release(slot);
        }
    }
    __aicore__ inline bool IsFilled(int32_t cell) const { return (filled_ >> cell & 1) != 0; }

    /// Returns the depth of an operand with `rows` rows or columns that fits into a half of L0A or L0B.
    __aicore__ inline int64_t LongestDepth(int32_t rows) const
    {
        return RoundDown(sizes_.l0Half / static_cast<int32_t>(sizeof(T)) / RoundUp(rows, kFractal), kFractal);
    }

    /// Returns a right operand without the first `depth` of its depth.
    template <Operands operands>
    __aicore__ inline static L1Matrix<T> FromDepth(const L1Matrix<T>& right, int64_t depth)
    {
        return operands == Operands::kDepthInside ? right.From(0, depth) : right.From(depth, 0);
    }

    /// Selects a half of L0B for the next products. The products so far release the other one.
    __aicore__ inline void UseHalf(int32_t half)
    {
        if (half != rightHalf_) {
            AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(kHalves + rightHalf_);
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(kHalves + half);
            rightHalf_ = half;
        }
    }

    __aicore__ inline bool IsHeld(int32_t half, const L1Matrix<T>& right, int32_t n, int32_t k) const
    {
        return held_[half].begin == right.begin && held_[half].n == n && held_[half].k == k;
    }

    /// Loads a right operand into L0B, unless it is there.
    template <Operands operands>
    __aicore__ inline void Hold(const L1Matrix<T>& right, int32_t n, int32_t k)
    {
        if (IsHeld(rightHalf_, right, n, k)) {
            return;
        }
        UseHalf(rightHalf_ ^ 1);
        if (!IsHeld(rightHalf_, right, n, k)) {
            LoadRight<operands>(right, n, k);
            held_[rightHalf_] = {right.begin, n, k};
        }
    }

    template <Operands operands>
    __aicore__ inline void LoadLeft(const L1Matrix<T>& left, int32_t m, int32_t k, int32_t done)
    {
        if constexpr (operands == Operands::kDepthInside) {
            AscendC::LoadData(L0a(), left.From(0, done).data, Block(left.pitch, m, RoundUp(k, kUnit)));
        } else {
            AscendC::LoadData3DParamsV2<T> block = Block(left.pitch, k, RoundUp(m, kFractal));
            block.enTranspose = true;
            AscendC::LoadData(L0a(), left.From(done, 0).data, block);
        }
    }

    template <Operands operands>
    __aicore__ inline void LoadRight(const L1Matrix<T>& right, int32_t n, int32_t k)
    {
        if constexpr (operands == Operands::kDepthInside) {
            // The layout in L1 is the layout of L0B: fractals of 16 rows, column by column.
            AscendC::LoadData2DParams fractals;
            fractals.repeatTimes = static_cast<uint8_t>(CeilDiv(n, kFractal) * CeilDiv(k, kUnit));
            fractals.srcStride = 1;
            AscendC::LoadData(L0b(), right.data, fractals);
        } else {
            AscendC::LoadData(L0b(), right.data, Block(right.pitch, k, RoundUp(n, kFractal)));
        }
    }

    /// Loads `rows` x `columns` elements of L1 whose columns of 32 bytes have `pitch` rows, as the image of a
    /// convolution with a single tap.
    __aicore__ inline AscendC::LoadData3DParamsV2<T> Block(int32_t pitch, int64_t rows, int64_t columns) const
    {
        AscendC::LoadData3DParamsV2<T> block;
        block.l1H = 1;
        block.l1W = static_cast<uint16_t>(pitch);
        block.channelSize = static_cast<uint16_t>(columns);
        block.mExtension = static_cast<uint16_t>(RoundUp(rows, kFractal));
        block.kExtension = static_cast<uint16_t>(columns);
        return block;
    }

    __aicore__ inline void Zero(const AscendC::LocalTensor<T>& destination, int64_t fractals)
    {
        AscendC::InitConstValueParams<half> zeros;
        zeros.repeatTimes = 1;
        zeros.blockNum = static_cast<uint16_t>(fractals);
        zeros.initValue = static_cast<half>(0.0f);
        AscendC::InitConstValue(destination.template ReinterpretCast<half>(), zeros);
    }

    /// Multiplies the operands in L0 and releases the half of L0A.
    __aicore__ inline void Add(int32_t cell, const AscendC::LocalTensor<T>& right, int32_t m, int32_t n, int32_t k,
                               bool isPadded)
    {
        const int32_t slot = SlotOf(cell);
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(leftHalf_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(leftHalf_);
        if ((used_ >> slot & 1) == 0) {
            AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
            used_ |= 1 << slot;
        }
        AscendC::MmadParams product;
        product.m = static_cast<uint16_t>(m);
        product.n = static_cast<uint16_t>(n);
        product.k = static_cast<uint16_t>(k);
        product.cmatrixInitVal = !IsFilled(cell);
        product.kDirectionAlign = sizeof(T) == sizeof(float) && isPadded;
        AscendC::Mmad(Cell(cell), L0a(), right, product);
        if (CeilDiv(m, kFractal) * CeilDiv(n, kFractal) < kBlocksInFlight) {
            AscendC::PipeBarrier<PIPE_M>();
        }
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(leftHalf_);
        leftHalf_ ^= 1;
        filled_ |= 1 << cell;
    }

    Sizes sizes_;
    AscendC::TBuf<AscendC::TPosition::A1> l1_;
    AscendC::TBuf<AscendC::TPosition::A2> l0a_;
    AscendC::TBuf<AscendC::TPosition::B2> l0b_;
    AscendC::TBuf<AscendC::TPosition::CO1> l0c_;
    int32_t leftHalf_ = 0;   // the half of L0A for the next load
    int32_t rightHalf_ = 0;  // the half of L0B for the next product
    Held held_[kHalves] = {};
    int32_t slotFloats_ = 0;  // a slot of L0C contains the cells of one tile
    int32_t cellFloats_ = 1;
    int32_t slotCells_ = 1;
    int32_t slots_ = 0;
    int32_t firstSlot_ = 0;
    int32_t openSlots_ = 0;
    int32_t used_ = 0;    // one bit per slot that the cube writes
    int32_t filled_ = 0;  // one bit per open cell
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_CUBE_CUBE_CORE_H
