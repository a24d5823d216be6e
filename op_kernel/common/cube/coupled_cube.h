// Products of float16 on a core with a cube and a vector unit: operands go from GM through UB to L1, sums from L0C to
// UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_CUBE_COUPLED_CUBE_H
#define OPFORGE_OP_KERNEL_COMMON_CUBE_COUPLED_CUBE_H

#include "kernel_operator.h"
#include "common/arch/arch.h"
#include "common/arch/rows.h"
#include "common/arithmetic.h"
#include "common/cube/l1_matrix.h"

namespace opforge {
namespace kernel {

/// T: dtype of the matrices in GM, which are rounded to float16. L1 has two slots for each operand: one is loaded while
/// the other one is multiplied. L0C has cells of equal size.
template <typename T>
class CoupledCube {
    using Matrix = L1Matrix<half>;

public:
    struct Sizes {
        int32_t stageBytes;    // of rows in UB, as T
        int32_t slotElements;  // of a slot of the left operand in L1; those of the right operand follow
        int32_t l1Bytes;
        int32_t l0Half;
        int32_t l0cBytes;
    };

    static constexpr int32_t kFractal = 16;
    static constexpr int64_t kMaxSide = 128;  // rows and columns of a cell
    static constexpr int64_t kReadRows = 32;

    __aicore__ inline void Init(AscendC::TPipe* pipe, const Sizes& sizes)
    {
        sizes_ = sizes;
        stageElements_ = sizes.stageBytes / static_cast<int64_t>(sizeof(T));
        pipe->InitBuffer(stages_, 2, static_cast<uint32_t>(sizes.stageBytes));
        pipe->InitBuffer(halves_, 2, static_cast<uint32_t>(stageElements_ * static_cast<int64_t>(sizeof(half))));
        pipe->InitBuffer(tileBuffer_, static_cast<uint32_t>(kReadRows * kMaxSide * sizeof(float)));
        pipe->InitBuffer(rowBuffer_, static_cast<uint32_t>(kReadRows * kMaxSide * sizeof(float)));
        pipe->InitBuffer(l1_, static_cast<uint32_t>(sizes.l1Bytes));
        pipe->InitBuffer(l0a_, static_cast<uint32_t>(2 * sizes.l0Half));
        pipe->InitBuffer(l0b_, static_cast<uint32_t>(2 * sizes.l0Half));
        pipe->InitBuffer(l0c_, static_cast<uint32_t>(sizes.l0cBytes));
    }

    __aicore__ inline void Begin()
    {
        for (int32_t event = 0; event < 2 * kSlots; ++event) {
            AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE3>(event);
        }
        for (int32_t part = 0; part < kHalves; ++part) {
            AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(part);
        }
        AscendC::SetFlag<AscendC::HardEvent::V_M>(0);
    }

    __aicore__ inline void End()
    {
        for (int32_t event = 0; event < 2 * kSlots; ++event) {
            AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE3>(event);
        }
        for (int32_t part = 0; part < kHalves; ++part) {
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(part);
        }
        AscendC::WaitFlag<AscendC::HardEvent::V_M>(0);
    }

    // Operands in L1.

    /// Returns the next slot of an operand, for a matrix of `rows` rows.
    __aicore__ inline Matrix BeginLoad(Operand operand, int64_t rows)
    {
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_MTE3>(EventOf(operand));
        const int64_t rightElements =
            sizes_.l1Bytes / static_cast<int64_t>(sizeof(half)) / kSlots - static_cast<int64_t>(sizes_.slotElements);
        const int64_t slot = slots_[static_cast<int32_t>(operand)];
        const int64_t element = operand == Operand::kLeft ? slot * sizes_.slotElements
                                                          : kSlots * sizes_.slotElements + slot * rightElements;
        return {l1_.Get<half>()[static_cast<uint32_t>(element)], static_cast<int32_t>(RoundUp(rows, kFractal))};
    }
    __aicore__ inline void EndLoad(Operand operand)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE3_MTE1>(EventOf(operand));
        AscendC::WaitFlag<AscendC::HardEvent::MTE3_MTE1>(EventOf(operand));
    }
    __aicore__ inline void EndUse(Operand operand)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_MTE3>(EventOf(operand));
        slots_[static_cast<int32_t>(operand)] ^= 1;
    }

    /// Loads rows of a matrix whose elements begin at `offset`; two rows are `stride` elements apart.
    __aicore__ inline void Load(const Matrix& destination, const AscendC::GlobalTensor<T>& source, int64_t offset,
                                int64_t rows, int64_t columns, int64_t stride)
    {
        const int64_t pitch = RoundUp(columns, Matrix::kUnit);
        const int64_t most = Smaller(stageElements_ / pitch, kMaxRepeats);
        for (int64_t row = 0; row < rows; row += most) {
            const int64_t count = Smaller(most, rows - row);
            AscendC::LocalTensor<T> stage = Stage(source, offset + row * stride, {count, columns, stride - columns});
            AscendC::LocalTensor<half> narrow = halves_.template AllocTensor<half>();
            Narrow(narrow, stage, count, columns);
            FreeStage(stage);
            CopyToL1(destination.From(row, 0), narrow, count, pitch);
        }
    }

    /// Fills rows with zeros.
    __aicore__ inline void Zero(const Matrix& destination, int64_t rows, int64_t columns)
    {
        const int64_t pitch = RoundUp(columns, Matrix::kUnit);
        const int64_t most = stageElements_ / pitch;
        for (int64_t row = 0; row < rows; row += most) {
            const int64_t count = Smaller(most, rows - row);
            AscendC::LocalTensor<half> zeros = halves_.template AllocTensor<half>();
            AscendC::Duplicate<half>(zeros, static_cast<half>(0.0f), static_cast<int32_t>(count * pitch));
            CopyToL1(destination.From(row, 0), zeros, count, pitch);
        }
    }

    /// Returns rows in UB for the vector unit, at most StageElements() elements with their padding.
    __aicore__ inline AscendC::LocalTensor<T> Stage(const AscendC::GlobalTensor<T>& source, int64_t offset,
                                                    const Rows& rows)
    {
        AscendC::LocalTensor<T> stage = stages_.template AllocTensor<T>();
        LoadRows(stage, source, offset, rows);
        stages_.EnQue(stage);
        return stages_.template DeQue<T>();
    }
    __aicore__ inline void FreeStage(AscendC::LocalTensor<T>& stage)
    {
        AscendC::PipeBarrier<PIPE_V>();
        stages_.FreeTensor(stage);
    }
    __aicore__ inline int64_t StageElements() const { return stageElements_; }

    // Cells of L0C.

    /// The cells have `m` x `n` floats, at least two rows, and are empty. A product of one row has another layout in
    /// L0A.
    __aicore__ inline void OpenCells(int64_t m, int64_t n)
    {
        AscendC::WaitFlag<AscendC::HardEvent::V_M>(0);
        product_.m = static_cast<uint16_t>(m);
        product_.n = static_cast<uint16_t>(n);
        m_ = static_cast<int32_t>(RoundUp(m, kFractal));
        n_ = static_cast<int32_t>(RoundUp(n, kFractal));
        filled_ = 0;
    }
    /// The vector unit waits for all products.
    __aicore__ inline void FinishCells()
    {
        AscendC::SetFlag<AscendC::HardEvent::M_V>(0);
        AscendC::WaitFlag<AscendC::HardEvent::M_V>(0);
    }
    __aicore__ inline void CloseCells() { AscendC::SetFlag<AscendC::HardEvent::V_M>(0); }

    /// Returns whether a product was added to the cell.
    __aicore__ inline bool IsFilled(int64_t cell) const { return (filled_ >> cell & 1) != 0; }

    /// cell += left x right, along `depth` elements.
    template <Operands operands>
    __aicore__ inline void Multiply(int64_t cell, const Matrix& left, const Matrix& right, int64_t depth)
    {
        const int64_t longest =
            RoundDown(sizes_.l0Half / static_cast<int64_t>(sizeof(half)) / Larger(m_, n_), kFractal);
        for (int64_t done = 0; done < depth; done += longest) {
            const int64_t k = Smaller(longest, depth - done);
            AscendC::WaitFlag<AscendC::HardEvent::M_MTE1>(feeding_);
            LoadLeft<operands>(left, k, done);
            LoadRight<operands>(right, k, done);
            Add(cell, k);
        }
    }

    /// Returns at most kReadRows rows of a cell, from `row` on (a multiple of 16): `count` rows with `pitch` elements
    /// each, a multiple of 8.
    __aicore__ inline AscendC::LocalTensor<float> Read(int64_t cell, int64_t row, int64_t count, int64_t pitch)
    {
        const AscendC::LocalTensor<float> tile = tileBuffer_.Get<float>();
        const AscendC::LocalTensor<float> rows = rowBuffer_.Get<float>();
        const int64_t fractals = CeilDiv(count, kFractal);
        const int64_t columns = CeilDiv(pitch, kFractal);
        AscendC::DataCopyEnhancedParams matrix;
        matrix.blockMode = AscendC::BlockMode::BLOCK_MODE_MATRIX;
        AscendC::DataCopy(tile, Cell(cell)[static_cast<uint32_t>(row * kFractal)],
                          AscendC::DataCopyParams(static_cast<uint16_t>(columns), static_cast<uint16_t>(fractals),
                                                  static_cast<uint16_t>(m_ / kFractal - fractals), 0),
                          matrix);
        AscendC::PipeBarrier<PIPE_V>();
        for (int64_t column = 0; column < columns; ++column) {
            const int64_t blocks = Smaller(kFractal, pitch - column * kFractal) / kFloatsPerBlock;
            AscendC::DataCopy(rows[static_cast<uint32_t>(column * kFractal)],
                              tile[static_cast<uint32_t>(column * fractals * kFractal * kFractal)],
                              AscendC::DataCopyParams(static_cast<uint16_t>(count), static_cast<uint16_t>(blocks),
                                                      static_cast<uint16_t>(kFractal / kFloatsPerBlock - blocks),
                                                      static_cast<uint16_t>(pitch / kFloatsPerBlock - blocks)));
        }
        AscendC::PipeBarrier<PIPE_V>();
        return rows;
    }

private:
    static constexpr int32_t kSlots = 2;
    static constexpr int32_t kHalves = 2;
    static constexpr int64_t kMaxRepeats = 255;
    static constexpr int64_t kLanes = 64;  // floats of one repeat
    static constexpr int64_t kFloatsPerBlock = 8;
    // If a product has fewer blocks, they may be incomplete when the next product reads the cell.
    static constexpr int32_t kBlocksInFlight = 10;

    __aicore__ inline int32_t EventOf(Operand operand) const
    {
        return kSlots * static_cast<int32_t>(operand) + slots_[static_cast<int32_t>(operand)];
    }
    __aicore__ inline AscendC::LocalTensor<float> Cell(int64_t cell)
    {
        return l0c_.Get<float>()[static_cast<uint32_t>(cell * m_ * n_)];
    }
    __aicore__ inline AscendC::LocalTensor<half> L0a() { return l0a_.Get<half>()[HalfOffset()]; }
    __aicore__ inline AscendC::LocalTensor<half> L0b() { return l0b_.Get<half>()[HalfOffset()]; }
    __aicore__ inline uint32_t HalfOffset() const
    {
        return static_cast<uint32_t>(feeding_ * (sizes_.l0Half / static_cast<int32_t>(sizeof(half))));
    }

    /// Rounds rows to float16. The rows of `narrow` are padded to 32 bytes.
    __aicore__ inline void Narrow(const AscendC::LocalTensor<half>& narrow, const AscendC::LocalTensor<T>& wide,
                                  int64_t rows, int64_t columns)
    {
        const int64_t pitch = RoundUp(columns, kBlockElements<half>);
        if constexpr (sizeof(T) == sizeof(half)) {
            AscendC::DataCopy(narrow, wide, static_cast<uint32_t>(rows * pitch));
        } else {
            const int64_t widePitch = RoundUp(columns, kBlockElements<T>);
            if (widePitch < pitch) {
                AscendC::Duplicate<half>(narrow, static_cast<half>(0.0f), static_cast<int32_t>(rows * pitch));
                AscendC::PipeBarrier<PIPE_V>();
            }
            const AscendC::UnaryRepeatParams strides(1, 1, static_cast<uint8_t>(pitch / kBlockElements<half>),
                                                     static_cast<uint8_t>(widePitch / kBlockElements<T>));
            for (int64_t column = 0; column < widePitch; column += kLanes) {
                AscendC::Cast(narrow[static_cast<uint32_t>(column)], wide[static_cast<uint32_t>(column)],
                              ToNarrowMode<half>(), static_cast<uint64_t>(Smaller(kLanes, widePitch - column)),
                              static_cast<uint8_t>(rows), strides);
            }
        }
    }

    /// Copies rows to columns of 32 bytes in L1.
    __aicore__ inline void CopyToL1(const Matrix& destination, AscendC::LocalTensor<half>& narrow, int64_t rows,
                                    int64_t pitch)
    {
        halves_.EnQue(narrow);
        narrow = halves_.template DeQue<half>();
        for (int64_t column = 0; column < pitch; column += Matrix::kUnit) {
            AscendC::DataCopy(destination.From(0, column).data, narrow[static_cast<uint32_t>(column)],
                              AscendC::DataCopyParams(static_cast<uint16_t>(rows), 1,
                                                      static_cast<uint16_t>(pitch / Matrix::kUnit - 1), 0));
        }
        halves_.FreeTensor(narrow);
    }

    /// Loads fractals of 16 x 16 elements, which are `stride` fractals apart in L1.
    __aicore__ inline void LoadFractals(const AscendC::LocalTensor<half>& destination, const Matrix& source,
                                        int64_t count, int64_t stride, bool isTransposed)
    {
        AscendC::LoadData2DParams fractals;
        fractals.repeatTimes = static_cast<uint8_t>(count);
        fractals.srcStride = static_cast<uint16_t>(stride);
        fractals.ifTranspose = isTransposed;
        AscendC::LoadData(destination, source.data, fractals);
    }

    /// L0A has the fractals of 16 rows one after the other.
    template <Operands operands>
    __aicore__ inline void LoadLeft(const Matrix& left, int64_t k, int64_t done)
    {
        const int64_t count = CeilDiv(k, kFractal);
        for (int64_t row = 0; row < m_; row += kFractal) {
            const AscendC::LocalTensor<half> fractals = L0a()[static_cast<uint32_t>(row * count * kFractal)];
            if constexpr (operands == Operands::kDepthInside) {
                LoadFractals(fractals, left.From(row, done), count, left.pitch / kFractal, false);
            } else {
                LoadFractals(fractals, left.From(done, row), count, 1, true);
            }
        }
    }

    /// L0B has the fractals of 16 elements of the depth one after the other.
    template <Operands operands>
    __aicore__ inline void LoadRight(const Matrix& right, int64_t k, int64_t done)
    {
        const int64_t count = n_ / kFractal;
        for (int64_t depth = 0; depth < k; depth += kFractal) {
            const AscendC::LocalTensor<half> fractals = L0b()[static_cast<uint32_t>(depth * n_)];
            if constexpr (operands == Operands::kDepthInside) {
                LoadFractals(fractals, right.From(0, done + depth), count, 1, false);
            } else {
                LoadFractals(fractals, right.From(done + depth, 0), count, right.pitch / kFractal, true);
            }
        }
    }

    /// Multiplies the operands in L0 and releases their half.
    __aicore__ inline void Add(int64_t cell, int64_t k)
    {
        AscendC::SetFlag<AscendC::HardEvent::MTE1_M>(feeding_);
        AscendC::WaitFlag<AscendC::HardEvent::MTE1_M>(feeding_);
        product_.k = static_cast<uint16_t>(k);
        product_.cmatrixInitVal = !IsFilled(cell);
        AscendC::Mmad(Cell(cell), L0a(), L0b(), product_);
        if (m_ / kFractal * (n_ / kFractal) < kBlocksInFlight) {
            AscendC::PipeBarrier<PIPE_M>();
        }
        AscendC::SetFlag<AscendC::HardEvent::M_MTE1>(feeding_);
        feeding_ ^= 1;
        filled_ |= int64_t{1} << cell;
    }

    Sizes sizes_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> stages_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> halves_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> tileBuffer_;  // fractals of a cell
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuffer_;   // the same as rows
    AscendC::TBuf<AscendC::TPosition::A1> l1_;
    AscendC::TBuf<AscendC::TPosition::A2> l0a_;
    AscendC::TBuf<AscendC::TPosition::B2> l0b_;
    AscendC::TBuf<AscendC::TPosition::CO1> l0c_;
    int64_t stageElements_ = 0;
    int64_t filled_ = 0;              // one bit per cell
    int32_t slots_[kSlots] = {0, 0};  // the next slot of each operand
    int32_t feeding_ = 0;             // the half of L0A and L0B for the next load
    AscendC::MmadParams product_;
    int32_t m_ = 0;  // of a cell, in whole fractals
    int32_t n_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_CUBE_COUPLED_CUBE_H
