// Rows of a matrix in GM that one DMA can copy.
#ifndef OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_BURST_H
#define OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_BURST_H

#include <cstdint>

namespace opforge {
namespace kernel {

/// Ascending rows at equal distances. Examples: any two ascending rows, all rows of a sorted list.
class RowBurst {
public:
    /// `maxStride`: largest distance of rows that a DMA supports.
    __aicore__ inline explicit RowBurst(int64_t maxStride) : maxStride_(maxStride) {}

    __aicore__ inline int64_t First() const { return first_; }
    __aicore__ inline int64_t Stride() const { return stride_; }
    __aicore__ inline int64_t Count() const { return count_; }

    __aicore__ inline void Start(int64_t row)
    {
        first_ = row;
        stride_ = 1;
        count_ = 1;
    }

    /// Returns whether the burst can contain `row`.
    __aicore__ inline bool Take(int64_t row)
    {
        const int64_t stride = row - first_ - (count_ - 1) * stride_;
        if (count_ == 0 || stride < 1 || stride > maxStride_ || (count_ > 1 && stride != stride_)) {
            return false;
        }
        stride_ = stride;
        ++count_;
        return true;
    }

private:
    int64_t maxStride_;
    int64_t first_ = 0;
    int64_t stride_ = 1;
    int64_t count_ = 0;
};

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_MEMORY_ROW_BURST_H
