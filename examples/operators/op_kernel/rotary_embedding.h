// RotaryEmbedding: y = x * cos + partner(x) * signed sin. A table of byte offsets finds the partners, another one the
// pair of each element, so that both layouts have the same code.
#ifndef OP_KERNEL_ROTARY_EMBEDDING_H
#define OP_KERNEL_ROTARY_EMBEDDING_H

#include "kernel_operator.h"
#include "common/arithmetic.h"
#include "common/memory/float_rows.h"
#include "common/order.h"
#include "rotary_embedding_tiling_data.h"

namespace opforge {

template <typename T, bool kIsInterleaved>
class RotaryEmbedding {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR cos, GM_ADDR sin, GM_ADDR y, GM_ADDR /*userWorkspace*/,
                                const RotaryEmbeddingTilingData& tiling, AscendC::TPipe* pipe)
    {
        tiling_ = tiling;
        if (tiling.positions == 0) {
            return;
        }
        const int64_t elements = tiling.positions * tiling.heads * tiling.headDim;
        const int64_t angles = tiling.sequence * tiling.headDim / 2;
        const int64_t tileRows = tiling.tilePositions * tiling.tileHeads;
        xs_.Init(pipe, x, elements, tileRows * tiling.pitch);
        ys_.Init(pipe, y, elements, tileRows * tiling.pitch);
        coses_.Init(pipe, cos, angles, tiling.tilePositions * AnglePitch());
        sines_.Init(pipe, sin, angles, tiling.tilePositions * AnglePitch());
        pipe->InitBuffer(partnerBuffer_, Bytes(tileRows * tiling.pitch));
        pipe->InitBuffer(partnerOffsetBuffer_, Bytes(tileRows * tiling.pitch));
        pipe->InitBuffer(cosBuffer_, Bytes(tiling.tilePositions * tiling.pitch));
        pipe->InitBuffer(sinBuffer_, Bytes(tiling.tilePositions * tiling.pitch));
        pipe->InitBuffer(pairOffsetBuffer_, Bytes(tiling.pitch));
        pipe->InitBuffer(signBuffer_, Bytes(tiling.pitch));
    }

    __aicore__ inline void Process()
    {
        if (tiling_.positions == 0) {
            return;
        }
        MakeTables();
        const kernel::Span own = kernel::PartOf(tiling_.positions, AscendC::GetBlockNum(), AscendC::GetBlockIdx());
        for (int64_t position = own.begin; position < own.end;) {
            // The angles of a tile are rows of one batch.
            const int64_t inBatch = position % tiling_.sequence;
            const int64_t count =
                kernel::Smaller(kernel::Smaller(tiling_.tilePositions, own.end - position), tiling_.sequence - inBatch);
            LoadAngles(inBatch, count);
            for (int64_t head = 0; head < tiling_.heads; head += tiling_.tileHeads) {
                Rotate(position, count, head, kernel::Smaller(tiling_.tileHeads, tiling_.heads - head));
            }
            position += count;
        }
    }

private:
    using Floats = AscendC::LocalTensor<float>;
    static constexpr int64_t kRepeat = 64;
    static constexpr int64_t kBlock = 8;
    static constexpr int64_t kAnglePad = 16;

    /// Writes the tables of one head, and copies the offsets of the partners to all heads of a tile.
    __aicore__ inline void MakeTables()
    {
        const AscendC::LocalTensor<int32_t> partners = partnerOffsetBuffer_.Get<int32_t>();
        const AscendC::LocalTensor<int32_t> pairs = pairOffsetBuffer_.Get<int32_t>();
        const Floats signs = signBuffer_.Get<float>();
        const int64_t half = tiling_.headDim / 2;
        for (int64_t element = 0; element < tiling_.pitch; ++element) {
            const bool isUsed = element < tiling_.headDim;
            const bool isFirst = kIsInterleaved ? element % 2 == 0 : element < half;
            const int64_t distance = kIsInterleaved ? 1 : half;
            const int64_t partner = isFirst ? element + distance : element - distance;
            const int64_t pair = kIsInterleaved ? element / 2 : element % half;
            const uint32_t at = static_cast<uint32_t>(element);
            partners.SetValue(at, static_cast<int32_t>(Bytes(isUsed ? partner : 0)));
            pairs.SetValue(at, static_cast<int32_t>(Bytes(isUsed ? pair : 0)));
            signs.SetValue(at, isFirst ? -1.0f : 1.0f);
        }
        kernel::Order<AscendC::HardEvent::S_V>();
        for (int64_t row = 1; row < tiling_.tilePositions * tiling_.tileHeads; ++row) {
            const int32_t offset = static_cast<int32_t>(row * tiling_.pitch);
            AscendC::Adds(partners[static_cast<uint32_t>(offset)], partners,
                          offset * static_cast<int32_t>(sizeof(float)), tiling_.pitch);
        }
        Barrier();
    }

    /// Spreads the cosines and the signed sines of some positions over the elements of a head.
    __aicore__ inline void LoadAngles(int64_t position, int64_t count)
    {
        const int64_t half = tiling_.headDim / 2;
        const kernel::RowTile tile = {position, 0, count, half, half, AnglePitch()};
        const Floats cosines = coses_.Load(tile);
        const Floats sines = sines_.Load(tile);
        const AscendC::LocalTensor<uint32_t> pairs = pairOffsetBuffer_.Get<uint32_t>();
        const uint32_t width = static_cast<uint32_t>(tiling_.headDim);
        for (int64_t index = 0; index < count; ++index) {
            AscendC::Gather(CosAt(index), cosines, pairs, Bytes(index * AnglePitch()), width);
            AscendC::Gather(SinAt(index), sines, pairs, Bytes(index * AnglePitch()), width);
        }
        Barrier();
        coses_.Free();
        sines_.Free();
        for (int64_t index = 0; index < count; ++index) {
            AscendC::Mul(SinAt(index), SinAt(index), signBuffer_.Get<float>(), static_cast<int32_t>(width));
        }
        Barrier();
    }

    __aicore__ inline void Rotate(int64_t position, int64_t count, int64_t head, int64_t heads)
    {
        const int64_t rows = count * heads;
        const kernel::RowTile tile = {
            position * tiling_.heads + head, 0, rows, tiling_.headDim, tiling_.headDim, tiling_.pitch};
        const Floats x = xs_.Load(tile);
        const Floats partner = partnerBuffer_.Get<float>();
        const int64_t width = tiling_.headDim;
        const int64_t half = width / 2;
        // Halves that begin at 32 bytes need no Gather, which is slow.
        const bool isGathered = kIsInterleaved || half % kBlock != 0;
        if (isGathered) {
            GatherPartners(partner, x, tile);
        }
        const Floats y = ys_.Alloc();
        for (int64_t index = 0; index < count; ++index) {
            const uint32_t at = tile.At(index * heads);
            MultiplyHeads(y[at], x[at], CosAt(index), heads, width);
            if (isGathered) {
                MultiplyHeads(partner[at], partner[at], SinAt(index), heads, width);
            } else {
                const uint32_t second = static_cast<uint32_t>(half);
                MultiplyHeads(partner[at], x[at + second], SinAt(index), heads, half);
                MultiplyHeads(partner[at + second], x[at], SinAt(index)[second], heads, half);
            }
        }
        Barrier();
        xs_.Free();
        if (tile.IsDense()) {
            AscendC::Add(y, y, partner, static_cast<int32_t>(rows * tiling_.headDim));
        } else {
            for (int64_t row = 0; row < rows; ++row) {
                AscendC::Add(y[tile.At(row)], y[tile.At(row)], partner[tile.At(row)],
                             static_cast<int32_t>(tiling_.headDim));
            }
        }
        ys_.Store(tile);
    }

    __aicore__ inline void GatherPartners(const Floats& partner, const Floats& x, const kernel::RowTile& tile)
    {
        const AscendC::LocalTensor<uint32_t> offsets = partnerOffsetBuffer_.Get<uint32_t>();
        const int64_t steps = tile.IsDense() ? 1 : tile.rows;
        const uint32_t count = static_cast<uint32_t>(tile.IsDense() ? tile.rows * tile.width : tile.width);
        for (int64_t row = 0; row < steps; ++row) {
            AscendC::Gather(partner[tile.At(row)], x, offsets[tile.At(row)], 0, count);
        }
        Barrier();
    }

    /// Multiplies each head by the same factors: a repeat is a head, and the factors have a repeat stride of 0.
    __aicore__ inline void MultiplyHeads(const Floats& result, const Floats& heads, const Floats& factors,
                                         int64_t count, int64_t width)
    {
        const uint8_t stride = static_cast<uint8_t>(tiling_.pitch / kBlock);
        for (int64_t element = 0; element < width; element += kRepeat) {
            const uint64_t mask = static_cast<uint64_t>(kernel::Smaller(kRepeat, width - element));
            const uint32_t at = static_cast<uint32_t>(element);
            AscendC::Mul(result[at], heads[at], factors[at], mask, static_cast<uint8_t>(count),
                         {1, 1, 1, stride, stride, 0});
        }
    }

    /// Orders the next vector instruction after the previous ones.
    __aicore__ inline void Barrier() { AscendC::PipeBarrier<PIPE_V>(); }

    __aicore__ inline uint32_t Bytes(int64_t floats) const
    {
        return static_cast<uint32_t>(floats) * static_cast<uint32_t>(sizeof(float));
    }
    __aicore__ inline int64_t AnglePitch() const { return kernel::RoundUp(tiling_.headDim / 2, kAnglePad); }
    __aicore__ inline Floats CosAt(int64_t index)
    {
        return cosBuffer_.Get<float>()[static_cast<uint32_t>(index * tiling_.pitch)];
    }
    __aicore__ inline Floats SinAt(int64_t index)
    {
        return sinBuffer_.Get<float>()[static_cast<uint32_t>(index * tiling_.pitch)];
    }

    RotaryEmbeddingTilingData tiling_;
    kernel::RowInput<T> xs_;
    kernel::RowInput<T> coses_;
    kernel::RowInput<T> sines_;
    kernel::RowOutput<T> ys_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> partnerBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> partnerOffsetBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> cosBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sinBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pairOffsetBuffer_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> signBuffer_;
};

}  // namespace opforge

#endif  // OP_KERNEL_ROTARY_EMBEDDING_H
