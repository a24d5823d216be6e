// Sums of columns over the rows of all cores: running sums of each core in UB, then sums of the cores through GM.
#ifndef OPFORGE_OP_KERNEL_COMMON_VECTOR_COLUMN_SUMS_H
#define OPFORGE_OP_KERNEL_COMMON_VECTOR_COLUMN_SUMS_H

#include "kernel_operator.h"
#include "common/arithmetic.h"

namespace opforge {
namespace kernel {

/// UB: 4 bytes for each column, rounded up to 32 columns, and kColumnSumsBytes.
constexpr int64_t kColumnSumsBytes = 8192;

/// T: dtype of the result. The order of the additions depends only on the rows of each core and the number of cores.
template <typename T>
class ColumnSums {
public:
    /// `core` of `cores` cores that have these columns. `partials`: in the workspace, `cores` rows of `pitch` floats;
    /// not used by one core.
    __aicore__ inline void Init(AscendC::TPipe* pipe, GM_ADDR partials, int64_t columns, int64_t core, int64_t cores,
                                int64_t pitch)
    {
        columns_ = columns;
        core_ = core;
        cores_ = cores;
        partialPitch_ = pitch;
        partials_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(partials), static_cast<uint64_t>(cores * pitch));
        pipe->InitBuffer(sumBuffer_, static_cast<uint32_t>(RoundUp(columns, kGranule)) * kFloatBytes);
        pipe->InitBuffer(loads_, 2, kChunk * kFloatBytes);
        pipe->InitBuffer(stores_, 2, kChunk * kFloatBytes);
        AscendC::Duplicate(sumBuffer_.Get<float>(), 0.0f, static_cast<int32_t>(columns));
        AscendC::PipeBarrier<PIPE_V>();
    }

    /// Returns the running sums of this core, from a column that is a multiple of 8.
    __aicore__ inline AscendC::LocalTensor<float> At(int64_t column)
    {
        return sumBuffer_.Get<float>()[static_cast<uint32_t>(column)];
    }

    /// Writes the sums over all cores. Every core calls this function once.
    __aicore__ inline void Finish(const AscendC::GlobalTensor<T>& result)
    {
        if (cores_ == 1) {
            Store(result, {0, columns_});
            return;
        }
        Store(partials_[static_cast<uint64_t>(core_ * partialPitch_)], {0, columns_});
        AscendC::SyncAll();
        const Span granules = PartOf(CeilDiv(columns_, kGranule), cores_, core_);
        const Span own = {granules.begin * kGranule, Smaller(granules.end * kGranule, columns_)};
        for (int64_t column = own.begin; column < own.end; column += kChunk) {
            AddPartials(column, Smaller(kChunk, own.end - column));
        }
        Store(result, own);
    }

private:
    static constexpr int64_t kGranule = 32;  // columns of 128 bytes
    static constexpr int64_t kChunk = kColumnSumsBytes / 16;
    static constexpr uint32_t kFloatBytes = sizeof(float);

    __aicore__ inline void AddPartials(int64_t column, int64_t width)
    {
        const int32_t count = static_cast<int32_t>(width);
        AscendC::Duplicate(At(column), 0.0f, count);
        AscendC::PipeBarrier<PIPE_V>();
        for (int64_t core = 0; core < cores_; ++core) {
            AscendC::LocalTensor<float> partial = loads_.template AllocTensor<float>();
            AscendC::DataCopyPad(partial, partials_[static_cast<uint64_t>(core * partialPitch_ + column)],
                                 Burst<float>(width), AscendC::DataCopyPadExtParams<float>());
            loads_.EnQue(partial);
            partial = loads_.template DeQue<float>();
            AscendC::Add(At(column), At(column), partial, count);
            AscendC::PipeBarrier<PIPE_V>();
            loads_.FreeTensor(partial);
        }
    }

    template <typename D>
    __aicore__ inline void Store(const AscendC::GlobalTensor<D>& destination, const Span& columns)
    {
        for (int64_t column = columns.begin; column < columns.end; column += kChunk) {
            const int64_t width = Smaller(kChunk, columns.end - column);
            AscendC::LocalTensor<D> store = stores_.template AllocTensor<D>();
            if constexpr (sizeof(D) < sizeof(float)) {
                AscendC::Cast(store, At(column), AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(width));
            } else {
                AscendC::Adds(store, At(column), 0.0f, static_cast<int32_t>(width));
            }
            stores_.EnQue(store);
            store = stores_.template DeQue<D>();
            AscendC::DataCopyPad(destination[static_cast<uint64_t>(column)], store, Burst<D>(width));
            stores_.FreeTensor(store);
        }
    }

    template <typename D>
    __aicore__ inline AscendC::DataCopyExtParams Burst(int64_t width) const
    {
        AscendC::DataCopyExtParams burst;
        burst.blockCount = 1;
        burst.blockLen = static_cast<uint32_t>(width * static_cast<int64_t>(sizeof(D)));
        return burst;
    }

    AscendC::GlobalTensor<float> partials_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> loads_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> stores_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuffer_;
    int64_t columns_ = 0;
    int64_t core_ = 0;
    int64_t cores_ = 1;
    int64_t partialPitch_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_VECTOR_COLUMN_SUMS_H
