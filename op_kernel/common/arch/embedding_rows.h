// Sums of the rows of an embedding table.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_EMBEDDING_ROWS_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_EMBEDDING_ROWS_H

#include "common/arch/arch.h"

#if OPFORGE_IS_COUPLED
#include "embedding_dense_backward/by_owner.h"
#else
#include "embedding_dense_backward/by_ranges.h"
#endif

namespace opforge {

template <typename T, typename I>
#if OPFORGE_IS_COUPLED
using EmbeddingRows = EmbeddingByOwner<T, I>;
#else
using EmbeddingRows = EmbeddingByRanges<T, I>;
#endif

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_EMBEDDING_ROWS_H
