// Iteration of a vector instruction over its operands. Resolves and checks masks, repeats and strides of all three
// instruction forms; a function computes dense runs of elements.
#ifndef OPFORGE_TWIN_KERNEL_VECTOR_SWEEP_H
#define OPFORGE_TWIN_KERNEL_VECTOR_SWEEP_H

#include <optional>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/block.h"

namespace opforge::twin::kernel {

inline constexpr int64_t kMaxRepeats = 255;

/// The time of the vector unit for a repeat.
enum class CyclesOf : uint8_t { kPlain, kSlow, kDiv };

/// The elements of an instruction after checks.
struct Shape {
    bool contiguous = false;  ///< count form: `total` elements in a row
    int64_t perRepeat = 0;    ///< elements of a full repeat
    int64_t repeats = 1;
    int64_t total = 0;            ///< of the count form and of counter mode
    std::vector<int32_t> active;  ///< element numbers within a repeat, ascending; empty: `leading` ones
    int64_t leading = 0;
    CyclesOf cycles = CyclesOf::kPlain;

    /// Active elements of one repeat.
    int64_t Count(int64_t repeat) const;
    /// Repeats of all forms.
    int64_t Repeats() const { return contiguous ? CeilDiv(total, perRepeat) : repeats; }
};

/// `widest`: bytes of the widest element of the operands, which determines the elements per repeat.
Shape Resolve(Block& block, const Lanes& lanes, int64_t widest, const Call& call);

/// The bytes of an element of the sources that a byte of the result depends on.
struct SourceBytes {
    int64_t shift = 0;       ///< first bit of the sources minus first bit of the result
    bool isSigned = false;   ///< the sign follows the last bit
    bool fromFirst = false;  ///< instead: all bytes up to that of the result

    bool Has(int64_t source, int64_t result, int64_t size) const
    {
        const int64_t distance = 8 * (source - result) - shift;
        const bool isSign = isSigned && source == size - 1 && distance < 0;
        return fromFirst ? source <= result : isSign || (distance > -8 && distance < 8);
    }
};

struct Operand {
    const LocalView* view;
    const char* name;
    Stride stride;
    bool isRead;
    bool isWritten;
    std::optional<SourceBytes> bytes = std::nullopt;  ///< empty: a result depends on all bytes
};

/// Computes `count` elements; `operands` point to dense runs. `context` is that of the caller.
using Body = void (*)(uint8_t* const* operands, int64_t count, uint64_t scalar, const void* context);

/// Operand 0 is the destination. `accumulates`: the instruction may add up repeats in dst = src1.
void Sweep(Block& block, Shape shape, std::vector<Operand> operands, Body body, uint64_t scalar, const void* context,
           bool accumulates, const Call& call);

/// Whether an instruction has nothing to do: a repeat count of 0 is accepted, but probably an error.
bool HasNoRepeats(Block& block, int64_t repeats, const Call& call);
/// The time of the vector unit for all repeats.
void Charge(Block& block, const Shape& shape, const Call& call);
/// Bytes from the address of the operand to the end of its last active element.
int64_t Extent(const Shape& shape, int64_t size, const Stride& stride);
/// Byte offset of an element of a repeat.
int64_t OffsetOf(int64_t repeat, int64_t element, int64_t size, const Stride& stride);
void CheckStride(Block& block, const Operand& operand, const Call& call);

/// An access of the vector unit.
inline void Touched(Block& block, AccessKind kind, int64_t address, int64_t bytes, const char* operand,
                    const Call& call)
{
    block.checks.Touch({Pipe::kVector, Memory::kOnChip, kind, address, bytes, operand, call});
}

/// A read of bytes that the vector unit moves unchanged; returns their state for LocalMemory::PassState.
inline uint8_t ReadMoved(Block& block, int64_t address, int64_t bytes, const char* operand, const Call& call)
{
    return block.checks.TouchMoved({Pipe::kVector, Memory::kOnChip, AccessKind::kRead, address, bytes, operand, call});
}

/// The blocks of 32 bytes that the repeats of an instruction have written.
class WrittenBlocks {
public:
    explicit WrittenBlocks(Block& block);
    /// Passes a repeat. Reports a source that an earlier repeat has written, and, at levels with the check
    /// overlap_in_repeat, one that the repeat itself writes elsewhere than `inPlace`; returns whether there is one.
    bool Pass(int64_t repeat, const std::vector<int64_t>& dst, const std::vector<int64_t>& src, bool inPlace,
              const char* name, const Call& call);

private:
    Block& block_;
    std::vector<bool> isWritten_;
};

/// Ends the block if an instruction that does not work in place writes to its input: the `dstBytes` from dst and the
/// `srcBytes` from src must not overlap.
void RequireApart(Block& block, int64_t dst, int64_t dstBytes, int64_t src, int64_t srcBytes, const char* name,
                  const Call& call);
/// The same for the results of each repeat, `bytes` at a distance of `pitch`, and for all blocks that `src` reads.
/// Levels without the check overlap_in_repeat accept results in blocks that no later repeat reads.
void RequireResultsApart(Block& block, const Shape& shape, const LocalView& dst, int64_t bytes, int64_t pitch,
                         const Operand& src, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_VECTOR_SWEEP_H
