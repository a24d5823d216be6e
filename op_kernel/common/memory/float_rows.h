// Tiles of rows in GM as float32 in UB.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_FLOAT_ROWS_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_FLOAT_ROWS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"

namespace opforge {
namespace kernel {

/// Some rows of a matrix and some columns of them.
struct RowTile {
    int64_t row = 0;
    int64_t column = 0;
    int64_t rows = 0;
    int64_t width = 0;
    int64_t columns = 0;  // of the matrix
    int64_t pitch = 0;    // elements from one row to the next in UB, a multiple of 32 bytes of each dtype

    __aicore__ inline uint32_t At(int64_t index) const { return static_cast<uint32_t>(index * pitch); }
    __aicore__ inline int32_t Width() const { return static_cast<int32_t>(width); }
    /// Whether no row has padding in UB.
    __aicore__ inline bool IsDense() const { return pitch == width; }
    __aicore__ inline uint64_t Offset() const { return static_cast<uint64_t>(row * columns + column); }
};

/// Loads and stores tiles of a matrix of T. UB: 2 * sizeof(T) bytes for each element, and 4 more if T has 16 bits.
template <typename T, AscendC::TPosition kPosition>
class FloatRows {
public:
    __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR matrix, int64_t elements, int64_t tileElements)
    {
        matrix_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(matrix), static_cast<uint64_t>(elements));
        pipe->InitBuffer(queue_, 2, static_cast<uint32_t>(tileElements) * static_cast<uint32_t>(sizeof(T)));
        if constexpr (kIsShort) {
            pipe->InitBuffer(wideBuffer_, static_cast<uint32_t>(tileElements) * static_cast<uint32_t>(sizeof(float)));
        }
    }

    /// Returns the tile for vector instructions, valid until Free. The padding of its rows is undefined.
    __aicore__ inline AscendC::LocalTensor<float> Load(const RowTile& tile) { return Load(tile, matrix_); }

    /// Returns a tile of another matrix.
    __aicore__ inline AscendC::LocalTensor<float> Load(const RowTile& tile, const AscendC::GlobalTensor<T>& matrix)
    {
        const int64_t padded = RoundUp(tile.width, kBlock);
        AscendC::DataCopyExtParams burst = Burst(tile);
        burst.srcStride = tile.rows > 1 ? static_cast<uint32_t>((tile.columns - tile.width) * kSize) : 0;
        burst.dstStride = static_cast<uint32_t>((tile.pitch - padded) / kBlock);
        AscendC::DataCopyPadExtParams<T> padding;
        padding.isPad = padded != tile.width;
        padding.rightPadding = static_cast<uint8_t>(padded - tile.width);
        tile_ = queue_.template AllocTensor<T>();
        AscendC::DataCopyPad(tile_, matrix[tile.Offset()], burst, padding);
        queue_.EnQue(tile_);
        tile_ = queue_.template DeQue<T>();
        if constexpr (kIsShort) {
            const AscendC::LocalTensor<float> wide = wideBuffer_.Get<float>();
            const int64_t steps = tile.IsDense() ? 1 : tile.rows;
            const uint32_t count = static_cast<uint32_t>(tile.IsDense() ? tile.rows * tile.width : tile.width);
            for (int64_t index = 0; index < steps; ++index) {
                AscendC::Cast(wide[tile.At(index)], tile_[tile.At(index)], AscendC::RoundMode::CAST_NONE, count);
            }
            AscendC::PipeBarrier<PIPE_V>();
            return wide;
        } else {
            return tile_;
        }
    }

    __aicore__ inline void Free() { queue_.FreeTensor(tile_); }

    /// Returns the memory of a tile to compute, for Store.
    __aicore__ inline AscendC::LocalTensor<float> Alloc()
    {
        tile_ = queue_.template AllocTensor<T>();
        if constexpr (kIsShort) {
            return wideBuffer_.Get<float>();
        } else {
            return tile_;
        }
    }

    /// Stores the tile that was computed in Alloc().
    __aicore__ inline void Store(const RowTile& tile)
    {
        AscendC::PipeBarrier<PIPE_V>();
        if constexpr (kIsShort) {
            const AscendC::LocalTensor<float> wide = wideBuffer_.Get<float>();
            const int64_t steps = tile.IsDense() ? 1 : tile.rows;
            const uint32_t count = static_cast<uint32_t>(tile.IsDense() ? tile.rows * tile.width : tile.width);
            for (int64_t index = 0; index < steps; ++index) {
                AscendC::Cast(tile_[tile.At(index)], wide[tile.At(index)], AscendC::RoundMode::CAST_RINT, count);
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
        queue_.EnQue(tile_);
        tile_ = queue_.template DeQue<T>();
        AscendC::DataCopyExtParams burst = Burst(tile);
        burst.dstStride = tile.rows > 1 ? static_cast<uint32_t>((tile.columns - tile.width) * kSize) : 0;
        burst.srcStride = static_cast<uint32_t>((tile.pitch - RoundUp(tile.width, kBlock)) / kBlock);
        AscendC::DataCopyPad(matrix_[tile.Offset()], tile_, burst);
        queue_.FreeTensor(tile_);
    }

private:
    static constexpr int64_t kSize = sizeof(T);
    static constexpr bool kIsShort = sizeof(T) < sizeof(float);
    static constexpr int64_t kBlock = kUbBlockBytes / kSize;

    __aicore__ inline AscendC::DataCopyExtParams Burst(const RowTile& tile) const
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(tile.rows);
        burst.blockLen = static_cast<uint32_t>(tile.width * kSize);
        return burst;
    }

    AscendC::GlobalTensor<T> matrix_;
    AscendC::TQue<kPosition, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideBuffer_;
    AscendC::LocalTensor<T> tile_;
};

template <typename T>
using RowInput = FloatRows<T, AscendC::TPosition::VECIN>;
template <typename T>
using RowOutput = FloatRows<T, AscendC::TPosition::VECOUT>;

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_FLOAT_ROWS_H
