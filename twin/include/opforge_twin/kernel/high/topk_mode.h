// Modes of TopK, in kernels and on the host.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_TOPK_MODE_H
#define OPFORGE_TWIN_KERNEL_HIGH_TOPK_MODE_H

namespace AscendC {

enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_TOPK_MODE_H
