// The memories of one core in one range of addresses: bytes, their written state, and the buffers and queues that
// divide them.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_LOCAL_MEMORY_H
#define OPFORGE_TWIN_KERNEL_MEMORY_LOCAL_MEMORY_H

#include <cstdint>
#include <deque>
#include <vector>

#include "kernel/memory/access.h"
#include "kernel/exec/core_layout.h"
#include "opforge_twin/launch.h"

namespace opforge::twin::kernel {

class Block;
struct Region;

enum class BufferState : uint8_t { kFree, kAllocated, kQueued, kDequeued, kScratch };

/// The instruction that made bytes undefined.
struct Origin {
    Call call;
    const char* effect;              ///< the effect of the instruction, for messages
    const Region* region = nullptr;  ///< the tensor in global memory that has the undefined bytes
    bool isPadding = false;          ///< around a row of DataCopyPad
};

struct Buffer {
    int64_t begin = 0;
    int64_t end = 0;
    BufferState state = BufferState::kFree;
    uint32_t generation = 0;
    uint32_t queue = LocalView::kNoBuffer;
    AscendC::TPosition position = AscendC::TPosition::GM;
    Location createdAt;                    ///< of InitBuffer
    Pipe producer = Pipe::kMte2;           ///< of the last EnQue
    Pipe consumer = Pipe::kVector;         ///< of the last EnQue
    int32_t filledEvent = -1;              ///< flag from producer to consumer that EnQue has set
    int32_t freedEvent = -1;               ///< flag from consumer to producer that FreeTensor has set
    Location changedAt;                    ///< of the last change of state
    bool isFixed = false;                  ///< holds tensors at addresses that the kernel chooses
    uint32_t pool = LocalView::kNoBuffer;  ///< the TBufPool that it is from
    bool isEnded = false;                  ///< its TBufPool was reset
    bool isPlaced = false;                 ///< InitBuffer gave its address
};

struct Queue {
    AscendC::TPosition source = AscendC::TPosition::GM;
    AscendC::TPosition destination = AscendC::TPosition::GM;
    Pipe producer = Pipe::kMte2;
    Pipe consumer = Pipe::kVector;
    int64_t depth = 1;
    std::vector<uint32_t> buffers;
    size_t next = 0;  ///< the next buffer of AllocTensor; buffers are used in turn
    std::deque<uint32_t> filled;
};

/// An array that a kernel declares with __ubuf__, __cbuf__ or similar.
struct FixedArray {
    Location at;  ///< of its declaration
    int64_t begin;
    int64_t end;
};

/// One memory of a core.
struct LocalUnit {
    enum class Id : uint8_t { kUnifiedBuffer, kL1, kL0A, kL0B, kL0C, kBias, kFixpipe };

    Id id;
    const char* name;
    const char* budgetKind;  ///< kind of the findings
    const char* rangeKind;
    const char* alignmentKind;
    PipeSet writers;
    PipeSet readers;
    int64_t begin;   ///< address on the core
    int64_t bytes;   ///< of the memory
    int64_t budget;  ///< maximum total of the buffers
    int64_t used = 0;
    int64_t planned = 0;  ///< bytes of all buffers in the tiling plan; 0: not known

    int64_t Left() const { return budget - used; }
    bool IsL0() const { return id == Id::kL0A || id == Id::kL0B; }
};

/// A TBufPool.
struct Pool {
    LocalUnit unit;  ///< the range of the pool
    int64_t mostBuffers;
    int64_t buffers = 0;
};

/// Bytes of L1 that a kernel may use: with the reserved end at level `device`.
int64_t BytesOfL1(const SocFigures& soc, Level level);

class LocalMemory {
public:
    static constexpr int64_t kMaxBuffers = 64;
    static constexpr uint8_t kWritten = 1;  ///< the state of a byte that is defined

    /// `shadowed`: the memory keeps a state for each byte.
    LocalMemory(CoreKind kind, const SocFigures& soc, Level level, bool shadowed, uint8_t poison);

    uint8_t* At(int64_t address) { return bytes_.data() + address; }
    /// Makes the contents undefined.
    void Poison(int64_t begin, int64_t bytes, const Origin& origin);
    void MarkWritten(int64_t begin, int64_t bytes);
    /// Address of the first undefined byte of the range; -1 if there is none.
    int64_t FirstUnwritten(int64_t begin, int64_t bytes) const;
    /// The instruction that made a byte undefined; null if no instruction did, or if too many did.
    const Origin* OriginOf(int64_t address) const;
    /// Adds the states of `count` elements of `size` bytes to `states`; those stay empty if all bytes are defined.
    void CollectUndefined(int64_t begin, int64_t count, int64_t size, std::vector<uint8_t>& states) const;
    /// Marks the elements at `begin` as undefined that are undefined in `states`.
    void PropagateUndefined(int64_t begin, int64_t size, const std::vector<uint8_t>& states);
    /// The state of the first undefined byte of the range, or that of defined bytes.
    uint8_t StateOf(int64_t begin, int64_t bytes) const;
    /// Marks the range as undefined if `state` is that of undefined bytes.
    void PassState(int64_t begin, int64_t bytes, uint8_t state);
    bool HasWritten(int64_t begin, int64_t bytes) const;

    /// Calls `change` for the bytes and for their shadow state, so that both move in the same way.
    template <typename Change>
    void Rearrange(const Change& change)
    {
        change(bytes_.data());
        if (shadowed_) {
            change(written_.data());
        }
    }

    int64_t Bytes() const { return static_cast<int64_t>(bytes_.size()); }
    /// The memory of a TPosition; null if the core does not have it.
    LocalUnit* UnitAt(AscendC::TPosition position);
    const LocalUnit& UnitOf(int64_t address) const;
    /// For a core with a vector unit.
    LocalUnit& UnifiedBuffer() { return units_.front(); }
    /// The array at an address; null if there is none.
    const FixedArray* ArrayAt(int64_t address) const;
    /// Ends the TPipe with its tensors and queues, at `at`.
    void FreeAll(const Location& at);

    void* pipe = nullptr;  ///< the live TPipe
    std::vector<Buffer> buffers;
    std::vector<Queue> queues;
    std::deque<Pool> pools;
    std::vector<FixedArray> arrays;  ///< by address in each memory
    bool usesAddresses = false;      ///< of asc_get_phy_buf_addr

    // Tensors and queues of an ended TPipe must be distinguishable from those of a later one.
    uint32_t generation = 0;        ///< last one given to a buffer
    uint32_t oldestGeneration = 1;  ///< of the live TPipe
    uint32_t firstQueue = 0;        ///< number of queues[0]
    uint32_t firstPool = 0;         ///< number of pools[0]
    Location endedAt;               ///< of the last TPipe

private:
    // The value of `written_` for a byte; larger values are numbers of origins.
    static constexpr uint8_t kUndefined = 0;
    static constexpr uint8_t kFirstOrigin = 2;

    uint8_t NumberOf(const Origin& origin);

    bool shadowed_;
    uint8_t poison_;
    std::vector<LocalUnit> units_;  ///< by address
    std::vector<uint8_t> bytes_;
    std::vector<uint8_t> written_;
    std::vector<Origin> origins_;
    size_t lastOrigin_ = 0;  ///< of the last query
};

/// The memory of a position; ends the block if its core does not have it.
LocalUnit& RequireUnit(Block& block, AscendC::TPosition position, const Call& call);
/// Whether a buffer or tensor is in a memory of the other cores of a mixed kernel, and only a use of it is a finding.
bool IsOfOtherCores(Block& block, AscendC::TPosition position);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_LOCAL_MEMORY_H
