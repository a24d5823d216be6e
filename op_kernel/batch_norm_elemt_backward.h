// BatchNormElemtBackward: one pass over the data. Each channel has four factors. The result is grad_input = ((grad_out
// - meanDy) - (input - mean) * slope) * scale, in float32 and in this order.
#ifndef OPFORGE_OP_KERNEL_BATCH_NORM_ELEMT_BACKWARD_H
#define OPFORGE_OP_KERNEL_BATCH_NORM_ELEMT_BACKWARD_H

#include "kernel_operator.h"
#include "common/arch/load_buffer.h"
#include "common/arch/reduce.h"
#include "common/arch/rows.h"
#include "common/arch/spread.h"
#include "common/arithmetic.h"
#include "common/order.h"
#include "batch_norm_elemt_backward_tiling_data.h"

namespace opforge {

/// T: dtype of grad_out, input and grad_input. N: dtype of counter.
template <typename T, typename N, bool kIsWeighted>
class BatchNormElemtBackward {
public:
    __aicore__ inline void Init(GM_ADDR gradOut, GM_ADDR input, GM_ADDR mean, GM_ADDR invstd, GM_ADDR weight,
                                GM_ADDR sumDy, GM_ADDR sumDyXmu, GM_ADDR counter, GM_ADDR gradInput, GM_ADDR,
                                const BatchNormElemtBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (tiling.slices == 0) {
            return;
        }
        const uint64_t elements = static_cast<uint64_t>(tiling.batches * tiling.channels * tiling.inner);
        gradOut_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradOut), elements);
        input_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(input), elements);
        gradInput_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gradInput), elements);
        counter_.SetGlobalBuffer(reinterpret_cast<__gm__ N*>(counter), static_cast<uint64_t>(tiling.counters));
        SetChannelBuffer(mean_, mean);
        SetChannelBuffer(invstd_, invstd);
        SetChannelBuffer(sumDy_, sumDy);
        SetChannelBuffer(sumDyXmu_, sumDyXmu);
        if constexpr (kIsWeighted) {
            SetChannelBuffer(weight_, weight);
        }

        if (tiling.tileBatches > 1) {
            leastBatches_ = kernel::CeilDiv(kernel::kLeastRun<T>, tiling.channels * tiling.inner);
        }
        const uint32_t tileBytes = static_cast<uint32_t>(tiling.tileBytes);
        pipe->InitBuffer(gradOuts_, kBuffers, tileBytes);
        pipe->InitBuffer(inputs_, kBuffers, tileBytes);
        pipe->InitBuffer(gradInputs_, kBuffers, tileBytes);
        loads_.Init(pipe, static_cast<uint32_t>(tiling.loadBytes));
        pipe->InitBuffer(workBuffer_, static_cast<uint32_t>(tiling.workBytes));
        work_ = workBuffer_.Get<float>();
        InitFactors(pipe);
    }

    __aicore__ inline void Process()
    {
        const int64_t units = tiling_.slices * tiling_.batches;
        const kernel::Span share = kernel::PartOf(units, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        if (share.begin == share.end) {
            return;
        }
        Tile tile = TileAt(share.begin, share.end);
        CopyIn(tile);
        channelEnd_ = TileAt(share.end - 1, share.end).ChannelEnd();
        total_ = TotalCount();
        if (tiling_.spreadFloats > 0) {
            const int64_t width = tiling_.isWindowed != 0 ? kFloatsPerBlock : tiling_.inner;
            spread_.Prepare(tiling_.sliceChannels, static_cast<int32_t>(width), tiling_.tileBatches);
        }
        while (tile.batches > 0) {
            UseChannels(tile);
            const Tile next = TileAt(tile.unit + tile.batches, share.end);
            // The computation of factors stalls the scalar unit, so the load of the next tile starts before it.
            CopyIn(next);
            Compute(tile);
            CopyOut(tile);
            tile = next;
        }
    }

private:
    /// `rows` runs of `width` elements that start at `element`; the first run has channel `channel`. In row tiles, a
    /// run is a channel or a piece of one. In other tiles, it is all elements of the channels of the slice in `batches`
    /// batches.
    struct Tile {
        int64_t unit;
        int64_t batches;
        int64_t channel;
        int64_t channels;
        int64_t element;
        int64_t rows;
        int64_t width;

        __aicore__ inline int64_t ChannelEnd() const { return channel + channels; }
    };

    enum Factor : int32_t { kMean, kMeanDy, kSlope, kScale, kFactors };

    static constexpr uint8_t kBuffers = 2;
    static constexpr int64_t kFloatsPerBlock = 8;
    static constexpr int64_t kElementsPerBlock = kernel::kUbBlockBytes / static_cast<int64_t>(sizeof(T));

    __aicore__ inline void SetChannelBuffer(AscendC::GlobalTensor<float>& tensor, GM_ADDR address)
    {
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(address), static_cast<uint64_t>(tiling_.channels));
    }

    __aicore__ inline void InitFactors(AscendC::TPipe* pipe)
    {
        constexpr uint32_t floatBytes = static_cast<uint32_t>(sizeof(float));
        const uint32_t channels = static_cast<uint32_t>(tiling_.channelCount);
        const uint32_t elements = static_cast<uint32_t>(tiling_.spreadFloats);
        pipe->InitBuffer(factorBuffer_, kFactors * channels * floatBytes);
        if (elements > 0) {
            pipe->InitBuffer(spreadBuffer_, kFactors * elements * floatBytes);
            spread_.Init(pipe, tiling_.maskBytes, work_);
        }
        for (uint32_t factor = 0; factor < kFactors; ++factor) {
            factors_[factor] = factorBuffer_.Get<float>()[factor * channels];
            used_[factor] = elements > 0 ? spreadBuffer_.Get<float>()[factor * elements] : factors_[factor];
        }
    }

    /// Returns the tile that starts at a unit. The units are the slices, each in all batches. A tile without batches
    /// means that `end` is reached.
    __aicore__ inline Tile TileAt(int64_t unit, int64_t end) const
    {
        const int64_t slice = unit / tiling_.batches;
        const int64_t batch = unit % tiling_.batches;
        const int64_t offset = slice % tiling_.pieces * tiling_.pieceWidth;
        Tile tile;
        tile.unit = unit;
        tile.batches = kernel::TileOf(end - unit, tiling_.tileBatches, leastBatches_);
        tile.channel = slice / tiling_.pieces * tiling_.sliceChannels;
        tile.channels = kernel::Smaller(tiling_.sliceChannels, tiling_.channels - tile.channel);
        tile.element = (batch * tiling_.channels + tile.channel) * tiling_.inner + offset;
        tile.rows = tiling_.isRowWise != 0 ? tile.channels : 1;
        tile.width = tiling_.isRowWise != 0 ? kernel::Smaller(tiling_.pieceWidth, tiling_.inner - offset)
                                            : tile.batches * tile.channels * tiling_.inner;
        return tile;
    }

    /// Returns the elements from one row to the next in UB.
    __aicore__ inline int32_t PitchOf(const Tile& tile) const
    {
        return static_cast<int32_t>(kernel::RoundUp(tile.width, kElementsPerBlock));
    }

    __aicore__ inline void CopyIn(const Tile& tile)
    {
        if (tile.batches > 0) {
            CopyIn(gradOuts_, gradOut_, tile);
            CopyIn(inputs_, input_, tile);
        }
    }

    __aicore__ inline void CopyIn(AscendC::TQue<AscendC::TPosition::VECIN, kBuffers>& queue,
                                  const AscendC::GlobalTensor<T>& source, const Tile& tile)
    {
        AscendC::LocalTensor<T> local = queue.template AllocTensor<T>();
        kernel::LoadRows(local, source, tile.element, {tile.rows, tile.width});
        queue.EnQue(local);
    }

    /// Returns the sum of all elements of counter.
    __aicore__ inline float TotalCount()
    {
        const uint32_t workFloats = work_.GetSize();
        const int64_t longest = kernel::Smaller(tiling_.loadBytes / static_cast<int32_t>(sizeof(N)), workFloats / 2);
        float total = 0.0f;
        for (int64_t done = 0; done < tiling_.counters; done += longest) {
            const int32_t count = static_cast<int32_t>(kernel::Smaller(longest, tiling_.counters - done));
            AscendC::LocalTensor<N> counts = loads_.template Begin<N>();
            kernel::LoadRows(counts, counter_, done, {1, count});
            counts = loads_.Finish(counts);
            kernel::SumTo(factors_[kMean], AsFloats(counts, count), work_[workFloats / 2], count);
            loads_.Free(counts);
            kernel::Order<AscendC::HardEvent::V_S>();
            total += factors_[kMean].GetValue(0);
            kernel::Order<AscendC::HardEvent::S_V>();
        }
        return total;
    }

    __aicore__ inline AscendC::LocalTensor<float> AsFloats(const AscendC::LocalTensor<float>& counts, int32_t) const
    {
        return counts;
    }
    __aicore__ inline AscendC::LocalTensor<float> AsFloats(const AscendC::LocalTensor<int32_t>& counts,
                                                           int32_t count) const
    {
        AscendC::Cast(work_, counts, kernel::kFromInt32Mode, static_cast<uint32_t>(count));
        AscendC::PipeBarrier<PIPE_V>();
        return work_;
    }

    /// Computes the factors of the channels of a tile if they are not available, and of as many next channels as fit.
    __aicore__ inline void UseChannels(const Tile& tile)
    {
        if (tile.ChannelEnd() <= channels_.end) {
            return;
        }
        channels_ = {tile.channel, kernel::Smaller(tile.channel + tiling_.channelCount, channelEnd_)};
        const int32_t count = static_cast<int32_t>(channels_.end - channels_.begin);
        MakeFactors(count);
        if (tiling_.spreadFloats > 0) {
            for (int32_t factor = 0; factor < kFactors; ++factor) {
                spread_.Run(used_[factor], factors_[factor], count);
            }
        }
        if (tiling_.isRowWise != 0) {
            kernel::Order<AscendC::HardEvent::V_S>();
        }
    }

    __aicore__ inline void MakeFactors(int32_t channels)
    {
        AscendC::LocalTensor<float> given = loads_.template Begin<float>();
        const AscendC::LocalTensor<float> mean = given;
        const AscendC::LocalTensor<float> invstd = given[tiling_.channelCount];
        const AscendC::LocalTensor<float> sumDy = given[2 * tiling_.channelCount];
        const AscendC::LocalTensor<float> sumDyXmu = given[3 * tiling_.channelCount];
        const AscendC::LocalTensor<float> weight = given[4 * tiling_.channelCount];
        LoadChannels(mean, mean_, channels);
        LoadChannels(invstd, invstd_, channels);
        LoadChannels(sumDy, sumDy_, channels);
        LoadChannels(sumDyXmu, sumDyXmu_, channels);
        if constexpr (kIsWeighted) {
            LoadChannels(weight, weight_, channels);
        }
        given = loads_.Finish(given);

        const int32_t count = static_cast<int32_t>(kernel::RoundUp(channels, kFloatsPerBlock));
        const AscendC::LocalTensor<float> total = work_;
        const AscendC::LocalTensor<float> meanDyXmu = work_[tiling_.channelCount];
        AscendC::Duplicate(total, total_, count);
        AscendC::DataCopy(factors_[kMean], mean, static_cast<uint32_t>(count));
        AscendC::Mul(factors_[kSlope], invstd, invstd, count);
        if constexpr (kIsWeighted) {
            AscendC::Mul(factors_[kScale], invstd, weight, count);
        } else {
            AscendC::DataCopy(factors_[kScale], invstd, static_cast<uint32_t>(count));
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Div(factors_[kMeanDy], sumDy, total, count);
        AscendC::Div(meanDyXmu, sumDyXmu, total, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(factors_[kSlope], factors_[kSlope], meanDyXmu, count);
        AscendC::PipeBarrier<PIPE_V>();
        loads_.Free(given);
    }

    __aicore__ inline void LoadChannels(const AscendC::LocalTensor<float>& destination,
                                        const AscendC::GlobalTensor<float>& source, int32_t channels)
    {
        kernel::LoadRows(destination, source, channels_.begin, {1, channels});
    }

    __aicore__ inline void Compute(const Tile& tile)
    {
        AscendC::LocalTensor<T> gradOut = gradOuts_.template DeQue<T>();
        AscendC::LocalTensor<T> input = inputs_.template DeQue<T>();
        AscendC::LocalTensor<T> gradInput = gradInputs_.template AllocTensor<T>();
        if constexpr (sizeof(T) == sizeof(float)) {
            ComputeFloats(gradInput, gradOut, input, tile);
        } else {
            const AscendC::LocalTensor<float> left = Left();
            const AscendC::LocalTensor<float> right = Right();
            const uint32_t count = static_cast<uint32_t>(tile.rows * PitchOf(tile));
            AscendC::Cast(left, gradOut, AscendC::RoundMode::CAST_NONE, count);
            AscendC::Cast(right, input, AscendC::RoundMode::CAST_NONE, count);
            AscendC::PipeBarrier<PIPE_V>();
            ComputeFloats(left, left, right, tile);
            AscendC::Cast(gradInput, left, kernel::ToNarrowMode<T>(), count);
            AscendC::PipeBarrier<PIPE_V>();
        }
        gradOuts_.FreeTensor(gradOut);
        inputs_.FreeTensor(input);
        gradInputs_.EnQue(gradInput);
    }

    __aicore__ inline void ComputeFloats(const AscendC::LocalTensor<float>& result,
                                         const AscendC::LocalTensor<float>& gradOut,
                                         const AscendC::LocalTensor<float>& input, const Tile& tile)
    {
        if (tiling_.isRowWise != 0) {
            ComputeRows(result, gradOut, input, tile);
        } else if (tiling_.isWindowed != 0) {
            ComputeWindows(result, gradOut, input, tile);
        } else {
            ComputeElements(result, gradOut, input, tile);
        }
    }

    /// Computes a tile in which every element has separate factors.
    __aicore__ inline void ComputeElements(const AscendC::LocalTensor<float>& result,
                                           const AscendC::LocalTensor<float>& gradOut,
                                           const AscendC::LocalTensor<float>& input, const Tile& tile)
    {
        const AscendC::LocalTensor<float> left = Left();
        const AscendC::LocalTensor<float> right = Right();
        const int32_t count = static_cast<int32_t>(tile.width);
        AscendC::Sub(right, input, used_[kMean], count);
        AscendC::Sub(left, gradOut, used_[kMeanDy], count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(right, right, used_[kSlope], count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sub(left, left, right, count);
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Mul(result, left, used_[kScale], count);
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Computes a contiguous tile in which a factor is one block for each channel.
    __aicore__ inline void ComputeWindows(const AscendC::LocalTensor<float>& result,
                                          const AscendC::LocalTensor<float>& gradOut,
                                          const AscendC::LocalTensor<float>& input, const Tile& tile)
    {
        const AscendC::LocalTensor<float> left = Left();
        const AscendC::LocalTensor<float> right = Right();
        ForWindows<false>(right, input, used_[kMean], tile);
        ForWindows<false>(left, gradOut, used_[kMeanDy], tile);
        ForWindows<true>(right, right, used_[kSlope], tile);
        AscendC::Sub(left, left, right, static_cast<int32_t>(tile.width));
        AscendC::PipeBarrier<PIPE_V>();
        ForWindows<true>(result, left, used_[kScale], tile);
    }

    /// Multiplies all channels of a contiguous tile by a factor, or subtracts it. Eight channels are whole blocks. Two
    /// neighbouring channels may share a block, so a barrier is between them.
    template <bool kIsProduct>
    __aicore__ inline void ForWindows(const AscendC::LocalTensor<float>& result,
                                      const AscendC::LocalTensor<float>& source,
                                      const AscendC::LocalTensor<float>& factor, const Tile& tile) const
    {
        for (int64_t parity = 0; parity < 2; ++parity) {
            for (int64_t channel = parity; channel < kernel::Smaller(kFloatsPerBlock, tile.channels); channel += 2) {
                const int64_t groups = kernel::CeilDiv(tile.channels - channel, kFloatsPerBlock);
                ForWindowsOf<kIsProduct>(result, source, factor[static_cast<uint32_t>(channel * kFloatsPerBlock)],
                                         channel, static_cast<uint8_t>(groups));
            }
            AscendC::PipeBarrier<PIPE_V>();
        }
    }

    /// Processes one of eight channels in `groups` groups of eight channels. A window is the part of the channel in 8
    /// blocks; each instruction processes the same window of all groups.
    template <bool kIsProduct>
    __aicore__ inline void ForWindowsOf(const AscendC::LocalTensor<float>& result,
                                        const AscendC::LocalTensor<float>& source,
                                        const AscendC::LocalTensor<float>& factor, int64_t channel,
                                        uint8_t groups) const
    {
        constexpr int64_t repeatFloats = 64;
        const uint8_t groupBlocks = static_cast<uint8_t>(tiling_.inner);  // blocks of eight channels
        const AscendC::BinaryRepeatParams params(1, 1, 0, groupBlocks, groupBlocks, kFloatsPerBlock);
        const int64_t begin = channel * tiling_.inner;
        const int64_t end = begin + tiling_.inner;
        for (int64_t window = kernel::RoundDown(begin, kFloatsPerBlock); window < end; window += repeatFloats) {
            const int64_t low = kernel::Larger(begin - window, 0);
            const int64_t lanes = kernel::Smaller(end - window, repeatFloats) - low;
            uint64_t mask[2] = {~uint64_t{0} >> (repeatFloats - lanes) << low, 0};
            const AscendC::LocalTensor<float> to = result[static_cast<uint32_t>(window)];
            const AscendC::LocalTensor<float> from = source[static_cast<uint32_t>(window)];
            if constexpr (kIsProduct) {
                AscendC::Mul(to, from, factor, mask, groups, params);
            } else {
                AscendC::Sub(to, from, factor, mask, groups, params);
            }
        }
    }

    /// Computes a tile in which all elements of a row have the factors of its channel.
    __aicore__ inline void ComputeRows(const AscendC::LocalTensor<float>& result,
                                       const AscendC::LocalTensor<float>& gradOut,
                                       const AscendC::LocalTensor<float>& input, const Tile& tile)
    {
        const AscendC::LocalTensor<float> left = Left();
        const AscendC::LocalTensor<float> right = Right();
        const int32_t pitch = PitchOf(tile);
        const int32_t rows = static_cast<int32_t>(tile.rows);
        for (int32_t row = 0; row < rows; ++row) {
            // The addition of the negated value equals the subtraction, also for zeros.
            AscendC::Adds(right[row * pitch], input[row * pitch], -FactorOf(kMean, tile, row), pitch);
            AscendC::Adds(left[row * pitch], gradOut[row * pitch], -FactorOf(kMeanDy, tile, row), pitch);
        }
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t row = 0; row < rows; ++row) {
            AscendC::Muls(right[row * pitch], right[row * pitch], FactorOf(kSlope, tile, row), pitch);
        }
        AscendC::PipeBarrier<PIPE_V>();
        AscendC::Sub(left, left, right, rows * pitch);
        AscendC::PipeBarrier<PIPE_V>();
        for (int32_t row = 0; row < rows; ++row) {
            AscendC::Muls(result[row * pitch], left[row * pitch], FactorOf(kScale, tile, row), pitch);
        }
        AscendC::PipeBarrier<PIPE_V>();
    }

    __aicore__ inline float FactorOf(Factor factor, const Tile& tile, int32_t row) const
    {
        return factors_[factor].GetValue(static_cast<uint32_t>(tile.channel - channels_.begin + row));
    }

    __aicore__ inline void CopyOut(const Tile& tile)
    {
        AscendC::LocalTensor<T> local = gradInputs_.template DeQue<T>();
        kernel::StoreRows(gradInput_, tile.element, local, {tile.rows, tile.width});
        gradInputs_.FreeTensor(local);
    }

    __aicore__ inline AscendC::LocalTensor<float> Left() const { return work_; }
    __aicore__ inline AscendC::LocalTensor<float> Right() const { return work_[tiling_.rightFloats]; }

    BatchNormElemtBackwardTilingData tiling_;
    AscendC::GlobalTensor<T> gradOut_;
    AscendC::GlobalTensor<T> input_;
    AscendC::GlobalTensor<T> gradInput_;
    AscendC::GlobalTensor<N> counter_;
    AscendC::GlobalTensor<float> mean_;
    AscendC::GlobalTensor<float> invstd_;
    AscendC::GlobalTensor<float> weight_;
    AscendC::GlobalTensor<float> sumDy_;
    AscendC::GlobalTensor<float> sumDyXmu_;
    AscendC::TQue<AscendC::TPosition::VECIN, kBuffers> gradOuts_;
    AscendC::TQue<AscendC::TPosition::VECIN, kBuffers> inputs_;
    kernel::LoadBuffer loads_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> gradInputs_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> factorBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuffer_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> factors_[kFactors];  // one element per channel
    AscendC::LocalTensor<float> used_[kFactors];     // factors in the layout of the tiles
    kernel::Spread spread_;
    kernel::Span channels_;  // channels of the available factors
    int64_t channelEnd_ = 0;
    int64_t leastBatches_ = 1;
    float total_ = 0.0f;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_BATCH_NORM_ELEMT_BACKWARD_H
