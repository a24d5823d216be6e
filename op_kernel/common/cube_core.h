// Matrix products on one cube core: operands use halves of L1, L0A and L0B; sums accumulate in cells of L0C.
#ifndef OPFORGE_OP_KERNEL_COMMON_CUBE_CORE_H
#define OPFORGE_OP_KERNEL_COMMON_CUBE_CORE_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/l1_matrix.h"

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
    }

    __aicore__ inline void End()
    {
        SetCellSize(0);
        for (int32_t slot = 0; slot < kMaxSlots; ++slot) {
            BeginLoad(Operand::kLeft, slot);
            BeginLoad(Operand::kRight, slot);
        }
        for (int32_t half = 0; half < kHalves; ++half) {
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(half);
        }
    }

    /// Sets the floats of a cell, which has a multiple of 16 rows and columns; 0: there are no cells. Another size
    /// waits until all cells are stored.
    __aicore__ inline void SetCellSize(int32_t floats)
    {
        if (floats == cellFloats_) {
            return;
        }
        for (int32_t cell = 0; cell < cells_; ++cell) {
            AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(cell);
        }
        cellFloats_ = floats;
        const int64_t fitting = floats == 0 ? 0 : sizes_.l0cBytes / static_cast<int32_t>(sizeof(float)) / floats;
        cells_ = static_cast<int32_t>(Smaller(kMaxCells, fitting));
        firstCell_ = openCells_ = 0;
        for (int32_t cell = 0; cell < cells_; ++cell) {
            AscendC::SetFlag<AscendC::HardEvent::FIX_M>(cell);
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
    }
    __aicore__ inline void EndUse(Operand operand, int32_t slot)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE2>(EventOf(operand, slot));
    }

    /// Returns L1 starting at an element.
    __aicore__ inline AscendC::LocalTensor<T> L1(int64_t element)
    {
        return l1_.Get<T>()[static_cast<uint32_t>(element)];
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
        firstCell_ = (firstCell_ + openCells_) % cells_;
        openCells_ = count;
        filled_ = 0;
    }

    /// cell += left x right: `m` x `depth` by `depth` x `n` elements.
    template <Operands operands>
    __aicore__ inline void Multiply(int32_t cell, const L1Matrix<T>& left, const L1Matrix<T>& right, int32_t m,
                                    int32_t n, int32_t depth)
    {
        const int32_t longest = SliceDepth(m, n, depth);
        for (int32_t done = 0; done < depth; done += longest) {
            const int32_t k = static_cast<int32_t>(Smaller(longest, depth - done));
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(feeding_);
            LoadLeft<operands>(left, m, k, done);
            LoadRight<operands>(right, n, k, done);
            Add(cell, m, n, k, operands == Operands::kDepthOutside);
        }
    }

    /// Sets the cell to zeros if nothing was added to it.
    __aicore__ inline void FillUp(int32_t cell, int32_t m, int32_t n)
    {
        if (IsFilled(cell)) {
            return;
        }
        AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(feeding_);
        Zero(L0a(), CeilDiv(m, kFractal));
        Zero(L0b(), CeilDiv(n, kFractal));
        Add(cell, m, n, kUnit, false);
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
        AscendC::Fixpipe<D, float>(destination, Slot(slot), store);
        AscendC::SetFlag<AscendC::HardEvent::FIX_M>(slot);
    }

private:
    static constexpr int32_t kHalves = 2;
    static constexpr int32_t kMaxSlots = 4;  // maximum slots per operand
    static constexpr int64_t kMaxCells = 8;
    static constexpr int64_t kMaxStride = 65535;
    // If a product has fewer blocks, they may be incomplete when the next product reads the cell.
    static constexpr int32_t kBlocksInFlight = 10;

    static __aicore__ inline QuantMode_t Conversion(half) { return QuantMode_t::F322F16; }
    static __aicore__ inline QuantMode_t Conversion(bfloat16_t) { return QuantMode_t::F322BF16; }
    static __aicore__ inline QuantMode_t Conversion(float) { return QuantMode_t::NoQuant; }

    __aicore__ inline static int32_t EventOf(Operand operand, int32_t slot)
    {
        return kMaxSlots * static_cast<int32_t>(operand) + slot;
    }
    __aicore__ inline AscendC::LocalTensor<T> L0a()
    {
        return l0a_.Get<T>()[static_cast<uint32_t>(feeding_ * (sizes_.l0Half / static_cast<int32_t>(sizeof(T))))];
    }
    __aicore__ inline AscendC::LocalTensor<T> L0b()
    {
        return l0b_.Get<T>()[static_cast<uint32_t>(feeding_ * (sizes_.l0Half / static_cast<int32_t>(sizeof(T))))];
    }
    __aicore__ inline int32_t SlotOf(int32_t cell) const { return (firstCell_ + cell) % cells_; }
    __aicore__ inline AscendC::LocalTensor<float> Slot(int32_t slot)
    {
        return l0c_.Get<float>()[static_cast<uint32_t>(slot * cellFloats_)];
    }
    __aicore__ inline bool IsFilled(int32_t cell) const { return (filled_ >> cell & 1) != 0; }

    /// Returns the depth of equal slices that fit into a half of L0A and of L0B.
    __aicore__ inline int32_t SliceDepth(int32_t m, int32_t n, int32_t depth) const
    {
        const int64_t rows = RoundUp(Larger(m, n), kFractal);
        const int64_t longest = RoundDown(sizes_.l0Half / static_cast<int64_t>(sizeof(T)) / rows, kFractal);
        const int64_t slices = Larger(CeilDiv(depth, longest), 1);
        return static_cast<int32_t>(RoundUp(CeilDiv(depth, slices), kFractal));
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
    __aicore__ inline void LoadRight(const L1Matrix<T>& right, int32_t n, int32_t k, int32_t done)
    {
        if constexpr (operands == Operands::kDepthInside) {
            // The layout in L1 is the layout of L0B: fractals of 16 rows, column by column.
            AscendC::LoadData2DParams fractals;
            fractals.repeatTimes = static_cast<uint8_t>(CeilDiv(n, kFractal) * CeilDiv(k, kUnit));
            fractals.srcStride = 1;
            AscendC::LoadData(L0b(), right.From(0, done).data, fractals);
        } else {
            AscendC::LoadData(L0b(), right.From(done, 0).data, Block(right.pitch, k, RoundUp(n, kFractal)));
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

    /// Multiplies the operands in L0 and releases their half.
    __aicore__ inline void Add(int32_t cell, int32_t m, int32_t n, int32_t k, bool isPadded)
    {
        const int32_t slot = SlotOf(cell);
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(feeding_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(feeding_);
        if (!IsFilled(cell)) {
            AscendC::WaitFlag<AscendC::HardEvent::FIX_M>(slot);
        }
        AscendC::MmadParams product;
        product.m = static_cast<uint16_t>(m);
        product.n = static_cast<uint16_t>(n);
        product.k = static_cast<uint16_t>(k);
        product.cmatrixInitVal = !IsFilled(cell);
        product.kDirectionAlign = sizeof(T) == sizeof(float) && isPadded;
        AscendC::Mmad(Slot(slot), L0a(), L0b(), product);
        if (CeilDiv(m, kFractal) * CeilDiv(n, kFractal) < kBlocksInFlight) {
            AscendC::PipeBarrier<PIPE_M>();
        }
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(feeding_);
        feeding_ ^= 1;
        filled_ |= 1 << cell;
    }

    Sizes sizes_;
    AscendC::TBuf<AscendC::TPosition::A1> l1_;
    AscendC::TBuf<AscendC::TPosition::A2> l0a_;
    AscendC::TBuf<AscendC::TPosition::B2> l0b_;
    AscendC::TBuf<AscendC::TPosition::CO1> l0c_;
    int32_t feeding_ = 0;  // the half of L0A and L0B for the next load
    int32_t cellFloats_ = 0;
    int32_t cells_ = 0;
    int32_t firstCell_ = 0;
    int32_t openCells_ = 0;
    int32_t filled_ = 0;  // one bit per open cell
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_CUBE_CORE_H
