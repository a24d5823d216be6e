// Modes of TopK, in kernels and on the host.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_SORT_MODES_H
#define OPFORGE_TWIN_KERNEL_HIGH_SORT_MODES_H

namespace AscendC {

enum class TopKMode { TOPK_NORMAL, TOPK_NSMALL };

/// A kernel of Ascend 910B passes SortConfig to GetSortMaxMinTmpSize only.
enum class SortType : uint8_t { RADIX_SORT = 0, MERGE_SORT };
struct SortConfig {
    SortType type = SortType::RADIX_SORT;
    bool isDescend = false;
    bool hasSrcIndex = false;
    bool hasDstIndex = false;
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_HIGH_SORT_MODES_H
