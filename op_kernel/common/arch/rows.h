// Rows between global memory and UB, of any length.
#ifndef OPFORGE_OP_KERNEL_COMMON_ARCH_ROWS_H
#define OPFORGE_OP_KERNEL_COMMON_ARCH_ROWS_H

#include "common/arch/arch.h"
#include "common/order.h"

namespace opforge {
namespace kernel {

/// `count` rows of `width` elements in global memory, with `gap` elements between two rows. In UB, each row begins at
/// a block of 32 bytes.
struct Rows {
    int64_t count = 1;
    int64_t width = 0;
    int64_t gap = 0;
};

template <typename T>
constexpr int64_t kBlockElements = kUbBlockBytes / static_cast<int64_t>(sizeof(T));

/// Returns the elements from one row to the next in UB.
template <typename T>
__aicore__ inline constexpr int64_t PitchOf(const Rows& rows)
{
    return RoundUp(rows.width, kBlockElements<T>);
}

/// Returns equal rows, as one row if they are contiguous in both memories.
template <typename T>
__aicore__ inline Rows Merged(const Rows& rows)
{
    return rows.gap == 0 && PitchOf<T>(rows) == rows.width ? Rows{1, rows.count * rows.width, 0} : rows;
}

#if OPFORGE_IS_COUPLED

/// Returns the DMA parameters of rows of whole blocks; the gap is in whole blocks, too.
template <typename T>
__aicore__ inline AscendC::DataCopyParams BlocksOf(const Rows& rows, bool isLoad)
{
    const uint16_t gap = static_cast<uint16_t>(rows.count > 1 ? rows.gap / kBlockElements<T> : 0);
    AscendC::DataCopyParams params;
    params.blockCount = static_cast<uint16_t>(rows.count);
    params.blockLen = static_cast<uint16_t>(rows.width / kBlockElements<T>);
    (isLoad ? params.srcGap : params.dstGap) = gap;
    return params;
}

/// Returns whether one DMA of whole blocks moves all rows.
template <typename T>
__aicore__ inline bool HasWholeBlocks(const Rows& rows)
{
    constexpr int64_t kMaxGap = 65535;
    const int64_t gap = rows.count > 1 ? rows.gap : 0;
    return PitchOf<T>(rows) == rows.width && gap % kBlockElements<T> == 0 && gap / kBlockElements<T> <= kMaxGap;
}

/// Loads a row whose last block ends after the tensor: this block is loaded as the last 32 bytes of the tensor and
/// moved by the scalar unit. A tensor of less than 32 bytes is read by the scalar unit.
template <typename T>
__aicore__ inline void LoadLastRow(const AscendC::LocalTensor<T>& destination, const AscendC::GlobalTensor<T>& source,
                                   int64_t offset, int64_t width)
{
    constexpr int64_t block = kBlockElements<T>;
    const int64_t elements = static_cast<int64_t>(source.GetSize());
    const int64_t whole = RoundDown(width, block);
    const AscendC::LocalTensor<T> last = destination[static_cast<uint32_t>(whole)];
    if (whole > 0) {
        AscendC::DataCopy(destination, source[static_cast<uint64_t>(offset)], static_cast<uint32_t>(whole));
    }
    if (elements >= block) {
        AscendC::DataCopy(last, source[static_cast<uint64_t>(elements - block)], static_cast<uint32_t>(block));
    }
    Order<AscendC::HardEvent::MTE2_S>();
    const int64_t shift = offset + whole - (elements - block);
    for (int64_t index = 0; index < block; ++index) {
        T value = static_cast<T>(0);
        if (whole + index < width) {
            value = elements >= block ? last.GetValue(static_cast<uint32_t>(shift + index))
                                      : source.GetValue(static_cast<uint64_t>(offset + index));
        }
        last.SetValue(static_cast<uint32_t>(index), value);
    }
    Order<AscendC::HardEvent::S_V>();
}

/// Loads rows that begin at an element of `source`, whose size is known. The elements after a row, up to a whole block,
/// are undefined.
template <typename T>
__aicore__ inline void LoadRows(const AscendC::LocalTensor<T>& destination, const AscendC::GlobalTensor<T>& source,
                                int64_t offset, const Rows& given)
{
    const Rows rows = Merged<T>(given);
    if (HasWholeBlocks<T>(rows)) {
        AscendC::DataCopy(destination, source[static_cast<uint64_t>(offset)], BlocksOf<T>(rows, true));
        return;
    }
    const int64_t pitch = PitchOf<T>(rows);
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t begin = offset + row * (rows.width + rows.gap);
        const AscendC::LocalTensor<T> local = destination[static_cast<uint32_t>(row * pitch)];
        if (begin + pitch <= static_cast<int64_t>(source.GetSize())) {
            AscendC::DataCopy(local, source[static_cast<uint64_t>(begin)], static_cast<uint32_t>(pitch));
        } else {
            LoadLastRow(local, source, begin, rows.width);
        }
    }
}

/// Stores rows of less than 32 bytes with the scalar unit. No other core may write to their cache lines.
template <typename T>
__aicore__ inline void StoreShortRows(const AscendC::GlobalTensor<T>& destination, int64_t offset,
                                      const AscendC::LocalTensor<T>& source, const Rows& rows)
{
    Order<AscendC::HardEvent::MTE3_S>();
    for (int64_t row = 0; row < rows.count; ++row) {
        for (int64_t index = 0; index < rows.width; ++index) {
            destination.SetValue(static_cast<uint64_t>(offset + row * (rows.width + rows.gap) + index),
                                 source.GetValue(static_cast<uint32_t>(row * PitchOf<T>(rows) + index)));
        }
    }
    Order<AscendC::HardEvent::S_MTE3>();
}

/// Stores rows; changes `source`. MTE3 must have waited for the instructions that write `source`. First, the whole
/// blocks of each row are stored. Then the scalar unit aligns the last 32 bytes of each row, and these are stored, too.
template <typename T>
__aicore__ inline void StoreRows(const AscendC::GlobalTensor<T>& destination, int64_t offset,
                                 const AscendC::LocalTensor<T>& source, const Rows& given)
{
    constexpr int64_t block = kBlockElements<T>;
    const Rows rows = Merged<T>(given);
    if (HasWholeBlocks<T>(rows)) {
        AscendC::DataCopy(destination[static_cast<uint64_t>(offset)], source, BlocksOf<T>(rows, false));
        return;
    }
    if (rows.width < block) {
        StoreShortRows(destination, offset, source, rows);
        return;
    }
    const int64_t whole = RoundDown(rows.width, block);
    const int64_t tail = rows.width - whole;
    const int64_t pitch = PitchOf<T>(rows);
    const int64_t step = rows.width + rows.gap;
    for (int64_t row = 0; row < rows.count; ++row) {
        AscendC::DataCopy(destination[static_cast<uint64_t>(offset + row * step)],
                          source[static_cast<uint32_t>(row * pitch)], static_cast<uint32_t>(whole));
    }
    if (tail == 0) {
        return;
    }
    Order<AscendC::HardEvent::MTE3_S>();
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t last = row * pitch + whole - block;
        for (int64_t index = last; index < last + block; ++index) {
            source.SetValue(static_cast<uint32_t>(index), source.GetValue(static_cast<uint32_t>(index + tail)));
        }
    }
    Order<AscendC::HardEvent::S_MTE3>();
    // Ends of neighboring rows may be in one block of global memory, so that every second row is stored first.
    for (int64_t parity = 0; parity < Smaller(rows.count, 2); ++parity) {
        AscendC::PipeBarrier<PIPE_MTE3>();
        for (int64_t row = parity; row < rows.count; row += 2) {
            AscendC::DataCopy(destination[static_cast<uint64_t>(offset + row * step + rows.width - block)],
                              source[static_cast<uint32_t>(row * pitch + whole - block)], static_cast<uint32_t>(block));
        }
    }
}

#else

/// Loads rows that begin at an element of `source`. Zeros follow each row, up to a whole block.
template <typename T>
__aicore__ inline void LoadRows(const AscendC::LocalTensor<T>& destination, const AscendC::GlobalTensor<T>& source,
                                int64_t offset, const Rows& given)
{
    const Rows rows = Merged<T>(given);
    AscendC::DataCopyExtParams params;
    params.blockCount = static_cast<uint16_t>(rows.count);
    params.blockLen = static_cast<uint32_t>(rows.width * static_cast<int64_t>(sizeof(T)));
    params.srcStride = static_cast<uint32_t>(rows.count > 1 ? rows.gap * static_cast<int64_t>(sizeof(T)) : 0);
    AscendC::DataCopyPadExtParams<T> padding;
    padding.rightPadding = static_cast<uint8_t>(PitchOf<T>(rows) - rows.width);
    padding.isPad = padding.rightPadding > 0;
    AscendC::DataCopyPad(destination, source[static_cast<uint64_t>(offset)], params, padding);
}

/// Stores rows.
template <typename T>
__aicore__ inline void StoreRows(const AscendC::GlobalTensor<T>& destination, int64_t offset,
                                 const AscendC::LocalTensor<T>& source, const Rows& given)
{
    const Rows rows = Merged<T>(given);
    AscendC::DataCopyExtParams params;
    params.blockCount = static_cast<uint16_t>(rows.count);
    params.blockLen = static_cast<uint32_t>(rows.width * static_cast<int64_t>(sizeof(T)));
    params.dstStride = static_cast<uint32_t>(rows.count > 1 ? rows.gap * static_cast<int64_t>(sizeof(T)) : 0);
    AscendC::DataCopyPad(destination[static_cast<uint64_t>(offset)], source, params);
}

#endif

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_ARCH_ROWS_H
