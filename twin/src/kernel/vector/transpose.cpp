// Transposition of blocks and matrices in the unified buffer.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "kernel/timing/time_model.h"
#include "kernel/vector/sweep.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kList = 16;  // blocks of a repeat
// A repeat reads and writes twice as many bytes as one of another instruction.
constexpr double kSpeed = 2.0;  // relative to an addition

/// The part of a block that a repeat reads or writes.
struct Half {
    int64_t offset;  ///< in bytes
    int64_t bytes;
};

Half HalfOf(int32_t size, bool isHigh)
{
    constexpr int64_t half = kBlockBytes / 2;
    return size == 1 ? Half{isHigh ? half : 0, half} : Half{0, kBlockBytes};
}

/// Blocks between the address and the first repeat: a single repeat begins one stride later.
int64_t FirstBlock(int64_t repeats, int64_t stride)
{
    return repeats == 1 ? stride : 0;
}

int64_t CheckBlocks(Block& block, const LocalView (&list)[kList], int64_t repeats, int64_t stride, AccessKind kind,
                    const char* name, const Call& call)
{
    const int64_t first = FirstBlock(repeats, stride);
    for (const LocalView& view : list) {
        block.checks.Use(view, (first + (repeats - 1) * stride + 1) * kBlockBytes, Pipe::kVector, kind, kBlockBytes,
                         name, call);
    }
    return first;
}

/// Reports sources in part of the destinations of the same repeat, and sources that an earlier repeat has written.
void CheckOverlap(Block& block, const BlockTransposition& blocks, int64_t firstDst, int64_t firstSrc, int64_t repeats,
                  const Call& call)
{
    const auto blocksOf = [](const LocalView(&list)[kList], int64_t offset) {
        std::vector<int64_t> found;
        for (const LocalView& view : list) {
            found.push_back(view.address / kBlockBytes + offset);
        }
        std::sort(found.begin(), found.end());
        return found;
    };
    const int64_t last = repeats - 1;
    const std::vector<int64_t> dst = blocksOf(blocks.dst, firstDst);
    const std::vector<int64_t> src = blocksOf(blocks.src, firstSrc);
    if (dst.front() > src.back() + last * blocks.srcRepStride ||
        src.front() > dst.back() + last * blocks.dstRepStride) {
        return;
    }
    WrittenBlocks written(block);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        const std::vector<int64_t> targets = blocksOf(blocks.dst, firstDst + repeat * blocks.dstRepStride);
        const std::vector<int64_t> sources = blocksOf(blocks.src, firstSrc + repeat * blocks.srcRepStride);
        written.Pass(repeat, targets, sources, targets == sources, "src", call);
    }
}

}  // namespace

void TransposeBlocks(const BlockTransposition& blocks, const Call& call)
{
    const Entry block(call);
    const int64_t repeats = Field("repeatTimes", blocks.repeats, 0, kMaxRepeats, call);
    const int64_t dstStride = Field("dstRepStride", blocks.dstRepStride, 0, UINT16_MAX, call);
    const int64_t srcStride = Field("srcRepStride", blocks.srcRepStride, 0, UINT16_MAX, call);
    if (HasNoRepeats(*block, repeats, call)) {
        return;
    }
    const int64_t firstDst = CheckBlocks(*block, blocks.dst, repeats, dstStride, AccessKind::kWrite, "dst", call);
    const int64_t firstSrc = CheckBlocks(*block, blocks.src, repeats, srcStride, AccessKind::kRead, "src", call);
    CheckOverlap(*block, blocks, firstDst, firstSrc, repeats, call);
    block->timeline.RunVector(static_cast<double>(repeats) * (kSpeed * time_model::kVectorCyclesPerRepeat), call);
    const int32_t size = blocks.src[0].size;
    const Half from = HalfOf(size, blocks.srcHigh);
    const Half to = HalfOf(size, blocks.dstHigh);
    const int64_t perBlock = from.bytes / size;
    std::array<uint8_t, kList * kBlockBytes> transposed{};
    std::array<int64_t, kList> sources{};
    const auto target = [&](int64_t repeat, int64_t row) {
        return blocks.dst[row].address + (firstDst + repeat * dstStride) * kBlockBytes + to.offset;
    };
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        for (int64_t row = 0; row < kList; ++row) {
            const int64_t address =
                blocks.src[row].address + (firstSrc + repeat * srcStride) * kBlockBytes + from.offset;
            sources[static_cast<size_t>(row)] = address;
            ReadMoved(*block, address, from.bytes, "src", call);
        }
        block->local.Rearrange([&](uint8_t* memory) {
            for (int64_t row = 0; row < kList; ++row) {
                for (int64_t element = 0; element < perBlock; ++element) {
                    std::memcpy(transposed.data() + (element * kList + row) * size,
                                memory + sources[static_cast<size_t>(row)] + element * size, static_cast<size_t>(size));
                }
            }
            for (int64_t row = 0; row < kList; ++row) {
                std::memcpy(memory + target(repeat, row), transposed.data() + row * to.bytes,
                            static_cast<size_t>(to.bytes));
            }
        });
        for (int64_t row = 0; row < kList; ++row) {
            block->checks.TouchOrder(
                {Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, target(repeat, row), to.bytes, "dst", call});
        }
    }
}

void TransposeMatrices(const LocalView& dst, const LocalView& src, const LocalView& tmp, int64_t scratch, int64_t n,
                       int64_t rows, int64_t columns, const Call& call)
{
    const Entry block(call);
    const int64_t elements = n * rows * columns;
    const int64_t bytes = elements * src.size;
    if (bytes == 0) {
        return;
    }
    block->checks.Use(src, bytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "src", call);
    block->checks.Use(tmp, scratch, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "sharedTmpBuffer", call);
    block->checks.Use(dst, bytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    RequireApart(*block, dst.address, bytes, src.address, bytes, "src", call);
    // Each element is copied through the scratch memory.
    const double repeats = static_cast<double>(CeilDiv(bytes, kList * kBlockBytes));
    block->timeline.RunVector(2.0 * repeats * (kSpeed * time_model::kVectorCyclesPerRepeat), call);
    ReadMoved(*block, src.address, bytes, "src", call);
    block->checks.TouchOrder(
        {Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, tmp.address, scratch, "sharedTmpBuffer", call});
    for (int64_t index = 0; index < elements; ++index) {
        const int64_t matrix = index / (rows * columns);
        const int64_t row = index / columns % rows;
        const int64_t to = matrix * rows * columns + index % columns * rows + row;
        block->local.Rearrange([&](uint8_t* memory) {
            std::memcpy(memory + dst.address + to * src.size, memory + src.address + index * src.size,
                        static_cast<size_t>(src.size));
        });
    }
    block->checks.TouchOrder({Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, dst.address, bytes, "dst", call});
}

}  // namespace opforge::twin::kernel
