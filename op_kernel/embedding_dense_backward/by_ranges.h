// EmbeddingDenseBackward for vector units with a sort: by ranges of table rows, or by sorted indices.
#ifndef OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_RANGES_H
#define OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_RANGES_H

#include "embedding_dense_backward/by_sort.h"
#include "embedding_dense_backward/by_table.h"

namespace opforge {

/// T: dtype of grad. I: dtype of indices.
template <typename T, typename I>
class EmbeddingByRanges {
public:
    __aicore__ inline void Init(GM_ADDR grad, GM_ADDR indices, GM_ADDR gradWeight, GM_ADDR userWorkspace,
                                const EmbeddingDenseBackwardTilingData& tiling, AscendC::TPipe* pipe)
    {
        isByTable_ = tiling.tableRows > 0;
        pipe_ = pipe;
        if (isByTable_) {
            byTable_.Init(grad, indices, gradWeight, userWorkspace, tiling, pipe);
        }
        bySort_.Init(grad, indices, gradWeight, userWorkspace, tiling, pipe);
    }

    __aicore__ inline void Process()
    {
        if (isByTable_) {
            if (byTable_.Process()) {
                return;
            }
            AscendC::PipeBarrier<PIPE_ALL>();
            pipe_->Reset();
        }
        bySort_.Process();
    }

private:
    EmbeddingByTable<T, I> byTable_;
    EmbeddingBySort<T, I> bySort_;
    AscendC::TPipe* pipe_ = nullptr;
    bool isByTable_ = false;
};

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_BY_RANGES_H
