// NsaCompressGrad: heads times rows are split over the cores. A core computes the gradient of each of its rows from the
// windows that contain the row. From the same rows, it sums the products for the gradient of the weight.
#ifndef OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_H
#define OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "nsa_compress_grad/head_shares.h"
#include "common/vector/row_sum.h"
#include "nsa_compress_grad/sequences.h"
#include "nsa_compress_grad_tiling_data.h"

namespace opforge {

/// T: dtype of all tensors.
template <typename T>
class NsaCompressGrad {
public:
    __aicore__ inline void Init(GM_ADDR outputGrad, GM_ADDR input, GM_ADDR weight, GM_ADDR actSeqLen, GM_ADDR inputGrad,
                                GM_ADDR weightGrad, GM_ADDR userWorkspace, const NsaCompressGradTilingData& tiling,
                                AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        rowPitch_ = tiling.heads * tiling.headSize;
        block_ = AscendC::GetBlockIdx();
        const int64_t blocks = AscendC::GetBlockNum();
        const int64_t tiles = kernel::CeilDiv(tiling.heads, tiling.tileHeads);
        shares_.Init(tiling.heads, tiling.rows, tiling.tileHeads, blocks);
        outputGrad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(outputGrad),
                                    static_cast<uint64_t>(tiling.windows * rowPitch_));
        input_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input), static_cast<uint64_t>(tiling.rows * rowPitch_));
        weight_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight),
                                static_cast<uint64_t>(tiling.windowRows * tiling.heads));
        inputGrad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(inputGrad),
                                   static_cast<uint64_t>(tiling.rows * rowPitch_));
        weightGrad_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weightGrad),
                                    static_cast<uint64_t>(tiling.windowRows * tiling.heads));
        partialSums_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(userWorkspace),
                                     static_cast<uint64_t>((blocks + tiles) * tiling.slotPitch));

        pipe->InitBuffer(rowLoads_, 2, static_cast<uint32_t>(tiling.rowBytes));
        pipe->InitBuffer(gradLoads_, 2, static_cast<uint32_t>(tiling.gradBytes));
        pipe->InitBuffer(stores_, 2, static_cast<uint32_t>(tiling.storeBytes));
        wide_ = BufferOf(wideBuffer_, tiling.wideBytes, pipe);
        image_ = BufferOf(imageBuffer_, tiling.imageBytes, pipe);
        wideGrad_ = BufferOf(wideGradBuffer_, tiling.wideGradBytes, pipe);
        products_ = BufferOf(productBuffer_, tiling.productBytes, pipe);
        weights_ = BufferOf(weightBuffer_, tiling.weightBytes, pipe);
        merged_.Init(pipe, {1, tiling.mergeBytes, tiling.mergeSumBytes, 0}, wide_);
        sequences_.Init(
            actSeqLen,
            {tiling.sequences, tiling.lengths != 0, tiling.sequenceRows, tiling.rows, tiling.windowRows, tiling.stride},
            pipe, tiling.listBytes, wide_);
    }

    __aicore__ inline void Process()
    {
        const kernel::Span tiles = shares_.TilesOf(block_);
        for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
            const kernel::Span rows = shares_.RowsOf(block_, tile);
            if (rows.begin < rows.end) {
                LayOut(tile);
                StartProducts();
                SumRows(rows);
                FinishProducts();
            }
        }
        if (tiling_.slotPitch == 0) {
            return;
        }
        AscendC::SyncAll();
        for (int64_t tile = tiles.begin; tile < tiles.end; ++tile) {
            LayOut(tile);
            if (owners_.begin <= block_ && block_ < owners_.end && !IsOnlyOwner()) {
                Merge();
            }
        }
    }

private:
    static constexpr int32_t kElementsPerBlock = kernel::kUbBlockBytes / static_cast<int32_t>(sizeof(T));
    static constexpr int32_t kFloatsPerBlock = 8;
    static constexpr int32_t kFloatsPerRepeat = 64;

    __aicore__ inline AscendC::LocalTensor<float> BufferOf(AscendC::TBuf<AscendC::TPosition::VECCALC>& buffer,
                                                           int32_t bytes, AscendC::TPipe* pipe)
    {
        pipe->InitBuffer(buffer, static_cast<uint32_t>(bytes));
        return buffer.template Get<float>();
    }

    __aicore__ inline void LayOut(int64_t tile)
    {
        firstHead_ = tile * tiling_.tileHeads;
        heads_ = static_cast<int32_t>(shares_.HeadsOf(tile));
        owners_ = shares_.OwnersOf(tile);
        productPitch_ = heads_ * tiling_.headPitch;
        sumPitch_ = static_cast<int32_t>(kernel::RoundUp(heads_, kElementsPerBlock));
        weightPitch_ = heads_ * tiling_.weightBlocks * kFloatsPerBlock;
        // From one core to the next, either the core or the tile changes: partial sums of a tile are contiguous.
        firstSlot_ = owners_.begin + tile;
    }

    /// Returns whether this core is the only one with these heads.
    __aicore__ inline bool IsOnlyOwner() const { return owners_.end - owners_.begin == 1; }

    __aicore__ inline void StartProducts()
    {
        LoadWeight();
        AscendC::Duplicate<float>(products_, 0.0f, tiling_.windowRows * productPitch_);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Copies every weight of the heads to 32-byte blocks: one block that instructions read repeatedly, or enough
    /// blocks for the columns of its head.
    __aicore__ inline void LoadWeight()
    {
        const int32_t width = tiling_.weightBlocks * kFloatsPerBlock;
        const int32_t octets = static_cast<int32_t>(kernel::CeilDiv(heads_, kFloatsPerBlock));
        const uint8_t weightBlocks = static_cast<uint8_t>(weightPitch_ / kFloatsPerBlock);
        const uint8_t spreadBlocks = static_cast<uint8_t>(octets * kFloatsPerBlock);
        for (int32_t first = 0; first < tiling_.windowRows; first += tiling_.pieceRows) {
            const int32_t rows = PieceFrom(first);
            LoadWeightRows(first, rows);
            for (int32_t row = 0; row < rows; ++row) {
                AscendC::Brcb(products_[row * octets * kFloatsPerRepeat], wide_[row * sumPitch_],
                              static_cast<uint8_t>(octets), {1, 8});
            }
            AscendC::PipeBarrier<PIPE_V>();
            for (int32_t head = 0; head < heads_; ++head) {
                for (int32_t column = 0; column < width; column += kFloatsPerRepeat) {
                    AscendC::Muls(weights_[first * weightPitch_ + head * width + column],
                                  products_[head * kFloatsPerBlock], 1.0f, MaskAt(column, width),
                                  static_cast<uint8_t>(rows), {1, 0, weightBlocks, spreadBlocks});
                }
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    __aicore__ inline void LoadWeightRows(int64_t first, int64_t rows)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(heads_ * sizeof(T));
        burst.srcStride = static_cast<uint32_t>((tiling_.heads - heads_) * sizeof(T));
        AscendC::LocalTensor<T> loaded = rowLoads_.template AllocTensor<T>();
        AscendC::DataCopyPad(loaded, weight_[WeightAt(first)], burst, ZerosAfter(heads_));
        rowLoads_.EnQue(loaded);
        Widen(wide_, rowLoads_, rows * sumPitch_);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Returns the offset of the first head of the tile in a row of the weight or of its gradient.
    __aicore__ inline uint64_t WeightAt(int64_t row) const
    {
        return static_cast<uint64_t>(row * tiling_.heads + firstHead_);
    }

    /// Returns the number of rows of the window, starting at `row`, whose weights or sums are copied together.
    __aicore__ inline int32_t PieceFrom(int32_t row) const
    {
        return static_cast<int32_t>(kernel::Smaller(tiling_.pieceRows, tiling_.windowRows - row));
    }

    __aicore__ inline static uint64_t MaskAt(int32_t column, int32_t columns)
    {
        return static_cast<uint64_t>(kernel::Smaller(kFloatsPerRepeat, columns - column));
    }

    /// Returns parameters that fill the last 32-byte block of a row of `width` elements with zeros.
    __aicore__ inline static AscendC::DataCopyPadExtParams<T> ZerosAfter(int64_t width)
    {
        const int64_t missing = kernel::RoundUp(width, kElementsPerBlock) - width;
        AscendC::DataCopyPadExtParams<T> padding;
        padding.isPad = missing != 0;
        padding.rightPadding = static_cast<uint8_t>(missing);
        return padding;
    }

    /// Copies the next tensor of a queue to `wide` as floats.
    template <typename Queue>
    __aicore__ inline void Widen(const AscendC::LocalTensor<float>& wide, Queue& queue, int64_t count)
    {
        AscendC::LocalTensor<T> loaded = queue.template DeQue<T>();
        AscendC::Cast(wide, loaded, AscendC::RoundMode::CAST_NONE, static_cast<uint32_t>(count));
        queue.FreeTensor(loaded);
    }

    __aicore__ inline void SumRows(const kernel::Span& rows)
    {
        for (int64_t column = 0; column < tiling_.headSize; column += tiling_.partWidth) {
            firstColumn_ = firstHead_ * tiling_.headSize + column;
            partWidth_ = kernel::Smaller(tiling_.partWidth, tiling_.headSize - column);
            columns_ = heads_ * static_cast<int32_t>(kernel::RoundUp(partWidth_, kElementsPerBlock));
            sequences_.GoTo(rows.begin);
            for (int64_t row = rows.begin; row < rows.end; row += tiling_.tileRows) {
                SumTile({row, kernel::Smaller(row + tiling_.tileRows, rows.end)});
            }
        }
    }

    /// Sums the rows of a tile. It starts in the sequence of the first row and ends in the sequence after the last row.
    __aicore__ inline void SumTile(const kernel::Span& rows)
    {
        const int64_t firstWindow = sequences_.FirstWindow() + sequences_.WindowsOn(rows).begin;
        const int64_t windows = kernel::Smaller(tiling_.tileWindows, tiling_.windows - firstWindow);
        const int32_t count = static_cast<int32_t>((rows.end - rows.begin) * columns_);
        Load(rowLoads_, input_, rows.begin, rows.end - rows.begin);
        Widen(wide_, rowLoads_, count);
        AscendC::Duplicate<float>(image_, 0.0f, count);
        if (windows > 0) {
            Load(gradLoads_, outputGrad_, firstWindow, windows);
            Widen(wideGrad_, gradLoads_, windows * columns_);
        }
        AscendC::PipeBarrier<PIPE_V>();
        while (sequences_.Begin() < rows.end) {
            const kernel::Span on = sequences_.WindowsOn(rows);
            for (int64_t window = on.begin; window < on.end; ++window) {
                const int64_t begin = sequences_.Begin() + window * tiling_.stride;
                const kernel::Span common{kernel::Larger(begin, rows.begin),
                                          kernel::Smaller(begin + tiling_.windowRows, rows.end)};
                AddWindow(static_cast<int32_t>(sequences_.FirstWindow() + window - firstWindow),
                          static_cast<int32_t>(common.begin - begin), static_cast<int32_t>(common.begin - rows.begin),
                          static_cast<uint8_t>(common.end - common.begin));
            }
            if (sequences_.End() > rows.end) {
                break;
            }
            sequences_.Next();
        }
        StoreInputGrad(rows.begin, rows.end - rows.begin, count);
    }

    /// Adds the products of `count` rows of a window, starting at row `windowRow` of the window and row `tileRow` of
    /// the tile.
    __aicore__ inline void AddWindow(int32_t window, int32_t windowRow, int32_t tileRow, uint8_t count)
    {
        const uint8_t columnBlocks = static_cast<uint8_t>(columns_ / kFloatsPerBlock);
        const uint8_t productBlocks = static_cast<uint8_t>(productPitch_ / kFloatsPerBlock);
        const uint8_t weightBlocks = static_cast<uint8_t>(weightPitch_ / kFloatsPerBlock);
        const uint8_t weightStride = tiling_.weightBlocks == 1 ? 0 : 1;
        for (int32_t column = 0; column < columns_; column += kFloatsPerRepeat) {
            const uint64_t mask = MaskAt(column, columns_);
            const AscendC::LocalTensor<float> grad = wideGrad_[window * columns_ + column];
            const int32_t weight = weightStride == 0 ? column / tiling_.headPitch * kFloatsPerBlock : column;
            AscendC::MulAddDst(products_[windowRow * productPitch_ + column], wide_[tileRow * columns_ + column], grad,
                               mask, count, {1, 1, 1, productBlocks, columnBlocks, 0});
            AscendC::MulAddDst(image_[tileRow * columns_ + column], weights_[windowRow * weightPitch_ + weight], grad,
                               mask, count, {1, weightStride, 1, columnBlocks, weightBlocks, 0});
        }
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Returns whether a head does not fill whole 32-byte blocks and is padded in UB.
    __aicore__ inline bool IsPadded() const { return tiling_.headSize % kElementsPerBlock != 0; }
    __aicore__ inline int64_t Pieces() const { return IsPadded() ? heads_ : 1; }
    __aicore__ inline int64_t PieceWidth() const { return IsPadded() ? partWidth_ : partWidth_ * heads_; }

    /// Returns the distance from the end of a piece in one row to the start in the next row: bytes in GM, 32-byte
    /// blocks in UB.
    __aicore__ inline uint32_t GmGap() const { return static_cast<uint32_t>((rowPitch_ - PieceWidth()) * sizeof(T)); }
    __aicore__ inline uint32_t UbGap() const
    {
        return static_cast<uint32_t>(columns_ / kElementsPerBlock - kernel::CeilDiv(PieceWidth(), kElementsPerBlock));
    }

    template <typename Queue>
    __aicore__ inline void Load(Queue& queue, const AscendC::GlobalTensor<T>& source, int64_t firstRow, int64_t rows)
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(PieceWidth() * sizeof(T));
        burst.srcStride = GmGap();
        burst.dstStride = UbGap();
        AscendC::LocalTensor<T> loaded = queue.template AllocTensor<T>();
        for (int64_t piece = 0; piece < Pieces(); ++piece) {
            const int64_t offset = firstRow * rowPitch_ + firstColumn_ + piece * tiling_.headSize;
            AscendC::DataCopyPad(loaded[static_cast<uint32_t>(piece * tiling_.headPitch)],
                                 source[static_cast<uint64_t>(offset)], burst, ZerosAfter(PieceWidth()));
        }
        queue.EnQue(loaded);
    }

    __aicore__ inline void StoreInputGrad(int64_t firstRow, int64_t rows, int32_t count)
    {
        AscendC::LocalTensor<T> stored = stores_.template AllocTensor<T>();
        AscendC::Cast(stored, image_, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(stored);
        stored = stores_.template DeQue<T>();
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(PieceWidth() * sizeof(T));
        burst.srcStride = UbGap();
        burst.dstStride = GmGap();
        for (int64_t piece = 0; piece < Pieces(); ++piece) {
            const int64_t offset = firstRow * rowPitch_ + firstColumn_ + piece * tiling_.headSize;
            AscendC::DataCopyPad(inputGrad_[static_cast<uint64_t>(offset)],
                                 stored[static_cast<uint32_t>(piece * tiling_.headPitch)], burst);
        }
        stores_.FreeTensor(stored);
    }

    /// Sums the products over the columns of each head. Stores the results, or the partial sums if other cores have the
    /// same heads.
    __aicore__ inline void FinishProducts()
    {
        for (int32_t first = 0; first < tiling_.windowRows; first += tiling_.pieceRows) {
            const int32_t rows = PieceFrom(first);
            SumColumns(products_[first * productPitch_], static_cast<uint8_t>(rows));
            if (IsOnlyOwner()) {
                StoreWeightGrad(wide_, first, rows);
            } else {
                StorePartialSums(first, rows);
            }
        }
    }

    __aicore__ inline void SumColumns(const AscendC::LocalTensor<float>& products, uint8_t rows)
    {
        const int32_t pitch = tiling_.headPitch;
        const uint8_t blocks = static_cast<uint8_t>(productPitch_ / kFloatsPerBlock);
        AscendC::Duplicate<float>(wide_, 0.0f, rows * sumPitch_);
        for (int32_t column = kFloatsPerRepeat; column < pitch; column += kFloatsPerRepeat) {
            for (int32_t head = 0; head < heads_; ++head) {
                const AscendC::LocalTensor<float> sums = products[head * pitch];
                AscendC::Add(sums, sums, sums[column], MaskAt(column, pitch), rows, {1, 1, 1, blocks, blocks, blocks});
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t head = 0; head < heads_; ++head) {
            AscendC::WholeReduceSum(wide_[head], products[head * pitch], static_cast<int32_t>(MaskAt(0, pitch)), rows,
                                    sumPitch_, 1, blocks);
            AscendC::PipeBarrier<PIPE_V>();  // the head sums share 32-byte blocks
        }
    }

    __aicore__ inline void StoreWeightGrad(const AscendC::LocalTensor<float>& sums, int64_t firstRow, int64_t rows)
    {
        AscendC::LocalTensor<T> stored = stores_.template AllocTensor<T>();
        AscendC::Cast(stored, sums, AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(rows * sumPitch_));
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(stored);
        stored = stores_.template DeQue<T>();
        AscendC::DataCopyExtParams burst;
        burst.blockCount = static_cast<uint16_t>(rows);
        burst.blockLen = static_cast<uint32_t>(heads_ * sizeof(T));
        burst.dstStride = static_cast<uint32_t>((tiling_.heads - heads_) * sizeof(T));
        AscendC::DataCopyPad(weightGrad_[WeightAt(firstRow)], stored, burst);
        stores_.FreeTensor(stored);
    }

    /// Returns the partial sums of the core `index` for the heads, starting at a row of the window.
    __aicore__ inline AscendC::GlobalTensor<float> PartialSumsOf(int64_t index, int64_t row) const
    {
        return partialSums_[static_cast<uint64_t>((firstSlot_ + index) * tiling_.slotPitch + row * sumPitch_)];
    }

    __aicore__ inline void StorePartialSums(int64_t firstRow, int64_t rows)
    {
        const uint32_t count = static_cast<uint32_t>(rows * sumPitch_);
        AscendC::LocalTensor<float> stored = stores_.template AllocTensor<float>();
        AscendC::DataCopy(stored, wide_, count);
        AscendC::PipeBarrier<PIPE_V>();
        stores_.EnQue(stored);
        stored = stores_.template DeQue<float>();
        AscendC::DataCopy(PartialSumsOf(block_ - owners_.begin, firstRow), stored, count);
        stores_.FreeTensor(stored);
    }

    /// Merges partial sums. Each core with partial sums of the heads merges some rows of the window.
    __aicore__ inline void Merge()
    {
        const int64_t owners = owners_.end - owners_.begin;
        const kernel::Span share = kernel::PartOf(tiling_.windowRows, owners, block_ - owners_.begin);
        const int64_t fitting = tiling_.mergeSumBytes / static_cast<int64_t>(sizeof(float)) / sumPitch_;
        for (int64_t row = share.begin; row < share.end; row += fitting) {
            const int64_t rows = kernel::Smaller(fitting, share.end - row);
            merged_.template Start<float>(rows * sumPitch_, 0);
            merged_.Add(PartialSumsOf(0, row), owners, tiling_.slotPitch);
            StoreWeightGrad(merged_.Finish(), row, rows);
        }
    }

    NsaCompressGradTilingData tiling_;
    AscendC::GlobalTensor<T> outputGrad_;
    AscendC::GlobalTensor<T> input_;
    AscendC::GlobalTensor<T> weight_;
    AscendC::GlobalTensor<T> inputGrad_;
    AscendC::GlobalTensor<T> weightGrad_;
    AscendC::GlobalTensor<float> partialSums_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> rowLoads_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> gradLoads_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> imageBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> wideGradBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> weightBuffer_;
    AscendC::LocalTensor<float> wide_;      // rows of input
    AscendC::LocalTensor<float> image_;     // rows of input_grad
    AscendC::LocalTensor<float> wideGrad_;  // rows of output_grad
    AscendC::LocalTensor<float> products_;  // one row per row of a window
    AscendC::LocalTensor<float> weights_;
    kernel::RowSum merged_;
    kernel::Sequences sequences_;
    kernel::HeadShares shares_;
    int64_t rowPitch_ = 0;  // elements of a row in GM
    int64_t block_ = 0;
    // The current tile of heads:
    int64_t firstHead_ = 0;
    kernel::Span owners_;  // cores with rows of the tile
    int64_t firstSlot_ = 0;
    int64_t firstColumn_ = 0;
    int64_t partWidth_ = 0;
    int32_t heads_ = 0;
    int32_t columns_ = 0;       // elements of a row in UB: columns of the heads, padded
    int32_t productPitch_ = 0;  // floats from one row of products to the next
    int32_t sumPitch_ = 0;      // floats from one row of the weight, or of its gradient, to the next
    int32_t weightPitch_ = 0;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_NSA_COMPRESS_GRAD_H
