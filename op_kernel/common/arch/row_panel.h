// Consecutive rows of a matrix in global memory that one core writes, each once, in ascending order.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_ROW_PANEL_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_ROW_PANEL_H

#include "common/arch/rows.h"
#include "common/arithmetic.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// Rows without a value are zeros. Narrow rows are packed, so that each store has at least 32 bytes.
template <typename T>
class RowPanel {
public:
    /// `bytes`: size of a buffer; there are two, and a third one for packed rows. No matrix has less than
    /// `leastColumns`.
    __aicore__ inline void Init(AscendC::TPipe* pipe, int64_t leastColumns, int64_t bytes)
    {
        bytes_ = bytes;
        pipe->InitBuffer(stores_, 2, static_cast<uint32_t>(bytes));
        if (leastColumns < kBlockElements<T>) {
            pipe->InitBuffer(packedBuffer_, static_cast<uint32_t>(bytes));
            packed_ = packedBuffer_.template Get<T>();
        }
    }

    /// Sets the number of columns of the matrix of the next rows.
    __aicore__ inline void Use(const AscendC::GlobalTensor<T>& matrix, int64_t columns)
    {
        matrix_ = matrix;
        columns_ = columns;
    }

    /// Starts with the first of `rows`, and `width` columns from `column` on.
    __aicore__ inline void Begin(const Span& rows, int64_t column, int64_t width)
    {
        rows_ = rows;
        column_ = column;
        width_ = width;
        pitch_ = RoundUp(width, kBlockElements<T>);
        panel_ = {rows.begin, rows.begin};
        if (rows.begin < rows.end) {
            Open();
        }
    }

    /// Writes `count` rows that follow the previously written rows. `values` has no gap between rows that are padded to
    /// whole blocks of T.
    __aicore__ inline void Write(int64_t row, const AscendC::LocalTensor<float>& values, int64_t count = 1)
    {
        for (int64_t done = 0; done < count;) {
            while (row + done >= panel_.end) {
                Close();
                Open();
            }
            const int64_t rows = Smaller(count - done, panel_.end - row - done);
            const AscendC::LocalTensor<T> target = local_[static_cast<uint32_t>((row + done - panel_.begin) * pitch_)];
            const AscendC::LocalTensor<float> source = values[static_cast<uint32_t>(done * pitch_)];
            if constexpr (sizeof(T) == sizeof(float)) {
                AscendC::DataCopy(target, source, static_cast<uint32_t>(rows * pitch_));
            } else {
                AscendC::Cast(target, source, ToNarrowMode<T>(), static_cast<uint32_t>(rows * pitch_));
            }
            AscendC::PipeBarrier<PIPE_V>();
            isZero_ = false;
            done += rows;
        }
    }

    /// Stores all remaining rows.
    __aicore__ inline void End()
    {
        while (panel_.begin < panel_.end) {
            Close();
            if (panel_.end < rows_.end) {
                Open();
            } else {
                panel_.begin = panel_.end;
            }
        }
    }

private:
    /// Starts the next panel.
    __aicore__ inline void Open()
    {
        const int64_t most = Smaller(bytes_ / (pitch_ * static_cast<int64_t>(sizeof(T))), kMaxRows);
        const int64_t least = CeilDiv(kBlockElements<T>, width_);
        panel_ = {panel_.end, panel_.end + TileOf(rows_.end - panel_.end, most, least)};
        local_ = stores_.template AllocTensor<T>();
        AscendC::Duplicate<int32_t>(local_.template ReinterpretCast<int32_t>(), 0,
                                    static_cast<int32_t>(Size(panel_) * pitch_ * static_cast<int64_t>(sizeof(T)) /
                                                         static_cast<int64_t>(sizeof(int32_t))));
        AscendC::PipeBarrier<PIPE_V>();
        isZero_ = true;
    }

    /// Stores the panel.
    __aicore__ inline void Close()
    {
        stores_.EnQue(local_);
        local_ = stores_.template DeQue<T>();
        const int64_t offset = panel_.begin * columns_ + column_;
        const bool isNarrow = width_ < kBlockElements<T>;
        if (isNarrow && isZero_) {
            StoreRows(matrix_, offset, local_, {1, Size(panel_) * width_});
        } else if (isNarrow) {
            Pack();
            StoreRows(matrix_, offset, packed_, {1, Size(panel_) * width_});
            Order<AscendC::HardEvent::MTE3_S>();
        } else {
            StoreRows(matrix_, offset, local_, {Size(panel_), width_, columns_ - width_});
        }
        stores_.FreeTensor(local_);
    }

    /// Copies the rows to packed_ without padding.
    __aicore__ inline void Pack()
    {
        Order<AscendC::HardEvent::V_S>();
        for (int64_t row = 0; row < Size(panel_); ++row) {
            for (int64_t index = 0; index < width_; ++index) {
                packed_.SetValue(static_cast<uint32_t>(row * width_ + index),
                                 local_.GetValue(static_cast<uint32_t>(row * pitch_ + index)));
            }
        }
        Order<AscendC::HardEvent::S_MTE3>();
    }

    static constexpr int64_t kMaxRows = 4095;  // of one DMA

    AscendC::GlobalTensor<T> matrix_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> packedBuffer_;
    AscendC::LocalTensor<T> packed_;
    AscendC::LocalTensor<T> local_;
    Span rows_;
    Span panel_;  // rows in local_
    int64_t columns_ = 0;
    int64_t column_ = 0;
    int64_t width_ = 0;
    int64_t pitch_ = 0;
    int64_t bytes_ = 0;
    bool isZero_ = true;  // no row of the panel has a value
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_ROW_PANEL_H
