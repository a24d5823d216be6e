// EmbeddingDenseBackward: by sorted indices, or by owned rows on cores whose vector unit cannot sort.
#ifndef OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_H
#define OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_H

#include "common/arch/embedding_rows.h"

namespace opforge {

/// T: dtype of grad. I: dtype of indices.
template <typename T, typename I>
using EmbeddingDenseBackward = EmbeddingRows<T, I>;

}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_EMBEDDING_DENSE_BACKWARD_H
