// Sort32, merges of sorted lists, and Extract, which separates values and indices.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/vector/numbers.h"
#include "kernel/vector/sweep.h"
#include "kernel/timing/time_model.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kEntryBytes = 8;
constexpr int64_t kIndexAt = 4;
constexpr int64_t kPerRepeat = 32;
constexpr int64_t kMaxListLength = 4095;
constexpr size_t kLists = 4;

struct SortEntry {
    float value;
    std::array<uint8_t, kEntryBytes> bytes;
    uint8_t indexState;  ///< of the index, for LocalMemory::PassState
};

float ValueAt(const uint8_t* from, Dtype dtype)
{
    return dtype == Dtype::kFloat16 ? Load<half>(from) : Load<float>(from);
}

void RequireNumber(Block& block, float value, const Call& call)
{
    if (std::isnan(value)) {
        block.Fail("sort_nan", Pipe::kVector, call,
                   "a value is NaN, whose order is not defined; replace NaN first, and pad with -inf");
    }
}

/// Checks a read of entries: the order of the result depends on their values; their indices are moved.
void TouchEntries(Block& block, int64_t at, int64_t count, int64_t valueBytes, const char* name, const Call& call)
{
    const uint8_t state = ReadMoved(block, at, count * kEntryBytes, name, call);
    for (int64_t entry = 0; state != block.local.kWritten && entry < count; ++entry) {
        block.checks.TouchContents(
            {Pipe::kVector, Memory::kOnChip, AccessKind::kRead, at + entry * kEntryBytes, valueBytes, name, call});
    }
}

/// Entries [first, first + count) of a list.
std::vector<SortEntry> ReadEntries(Block& block, const LocalView& list, int64_t first, int64_t count, const Call& call)
{
    std::vector<SortEntry> entries(static_cast<size_t>(count));
    int64_t at = list.address + first * kEntryBytes;
    TouchEntries(block, at, count, list.size, "src", call);
    for (SortEntry& entry : entries) {
        entry.indexState = block.local.StateOf(at + kIndexAt, kEntryBytes - kIndexAt);
        std::copy_n(block.local.At(at), kEntryBytes, entry.bytes.begin());
        entry.value = ValueAt(entry.bytes.data(), list.dtype);
        RequireNumber(block, entry.value, call);
        at += kEntryBytes;
    }
    return entries;
}

void RequireDescending(Block& block, const std::vector<SortEntry>& entries, size_t list, const Call& call)
{
    const auto rises = std::adjacent_find(entries.begin(), entries.end(),
                                          [](const SortEntry& a, const SortEntry& b) { return a.value < b.value; });
    if (rises != entries.end()) {
        block.Fail(
            "sort_order", Pipe::kVector, call,
            Text("list ", list + 1, " is not in descending order: entry ", rises - entries.begin(), " is ",
                 rises->value, ", the next one ", (rises + 1)->value, "; use lists from Sort32 or another merge"));
    }
}

int64_t WriteEntry(Block& block, int64_t to, const SortEntry& entry)
{
    std::copy(entry.bytes.begin(), entry.bytes.end(), block.local.At(to));
    block.local.PassState(to + kIndexAt, kEntryBytes - kIndexAt, entry.indexState);
    return to + kEntryBytes;
}

/// Checks the lists of a merge; returns how many there are.
size_t CheckMerge(Block& block, const LocalView& dst, const ListMerge& merge, const Call& call)
{
    if (merge.validBits != 3 && merge.validBits != 7 && merge.validBits != 15) {
        block.Fail("field_range", Pipe::kVector, call,
                   Text("validBit is ", merge.validBits, ", expected 3, 7 or 15: the first 2, 3 or 4 lists"));
    }
    const size_t lists = merge.validBits == 3 ? 2 : merge.validBits == 7 ? 3 : 4;
    const int64_t repeats = Field("repeatTimes", merge.repeats, 0, kMaxRepeats, call);
    int64_t total = 0;
    for (size_t list = 0; list < lists; ++list) {
        total += Field("elementLengths", merge.lengths[list], 0, kMaxListLength, call);
    }
    const LocalView& first = *merge.lists[0];
    for (size_t list = 0; repeats > 1 && list < kLists; ++list) {
        const bool isBehind =
            merge.lists[list]->address == first.address + static_cast<int64_t>(list) * merge.lengths[0] * kEntryBytes;
        if (lists != kLists || merge.suspends || merge.lengths[list] != merge.lengths[0] || !isBehind) {
            block.Fail("field_range", Pipe::kVector, call,
                       Text("repeatTimes is ", repeats,
                            ", which needs four consecutive lists of equal length, validBit 15 and no suspension"));
        }
    }
    const int64_t dstEnd = dst.address + repeats * total * kEntryBytes;
    for (size_t list = 0; list < lists && repeats > 0; ++list) {
        const LocalView& source = *merge.lists[list];
        const int64_t bytes = ((repeats - 1) * total + merge.lengths[list]) * kEntryBytes;
        block.checks.Use(source, bytes, Pipe::kVector, AccessKind::kRead, kEntryBytes, "src", call);
        if (source.address < dstEnd && dst.address < source.address + bytes) {
            block.Fail("overlap", Pipe::kVector, call,
                       Text("dst and list ", list + 1, " overlap; merge to another buffer"));
        }
    }
    block.checks.Use(dst, repeats * total * kEntryBytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst", call);
    return lists;
}

}  // namespace

void SortRepeats(const LocalView& dst, const LocalView& values, const LocalView& indices, int64_t repeats,
                 bool isTensor, const Call& call)
{
    const Entry block(call);
    Field("repeatTime", repeats, 0, kMaxRepeats, call);
    if (HasNoRepeats(*block, repeats, call)) {
        return;
    }
    const int64_t valueBytes = kPerRepeat * values.size;
    const int64_t indexBytes = kPerRepeat * kIndexAt;
    const auto use = [&](const LocalView& view, int64_t bytes, AccessKind kind, const char* name) {
        const int64_t alignment = isTensor ? kBlockBytes : bytes;
        block->checks.Use(view, repeats * bytes, Pipe::kVector, kind, alignment, name, call);
    };
    use(values, valueBytes, AccessKind::kRead, "src0");
    use(indices, indexBytes, AccessKind::kRead, "src1");
    use(dst, kRepeatBytes, AccessKind::kWrite, "dst");
    RequireApart(*block, dst.address, repeats * kRepeatBytes, values.address, repeats * valueBytes, "src0", call);
    RequireApart(*block, dst.address, repeats * kRepeatBytes, indices.address, repeats * indexBytes, "src1", call);
    block->timeline.RunVector(static_cast<double>(repeats) * time_model::kSort32CyclesPerRepeat, call);
    Touched(*block, AccessKind::kRead, values.address, repeats * valueBytes, "src0", call);
    ReadMoved(*block, indices.address, repeats * indexBytes, "src1", call);
    Touched(*block, AccessKind::kWrite, dst.address, repeats * kRepeatBytes, "dst", call);
    for (int64_t repeat = 0; repeat < repeats; ++repeat) {
        std::array<SortEntry, kPerRepeat> entries{};
        for (int64_t lane = 0; lane < kPerRepeat; ++lane) {
            SortEntry& entry = entries[static_cast<size_t>(lane)];
            const int64_t number = repeat * kPerRepeat + lane;
            const uint8_t* value = block->local.At(values.address + number * values.size);
            entry.value = ValueAt(value, values.dtype);
            RequireNumber(*block, entry.value, call);
            std::copy_n(value, values.size, entry.bytes.begin());
            const int64_t index = indices.address + number * kIndexAt;
            std::copy_n(block->local.At(index), kIndexAt, entry.bytes.begin() + kIndexAt);
            entry.indexState = block->local.StateOf(index, kIndexAt);
        }
        std::stable_sort(entries.begin(), entries.end(),
                         [](const SortEntry& a, const SortEntry& b) { return a.value > b.value; });
        int64_t to = dst.address + repeat * kRepeatBytes;
        for (const SortEntry& entry : entries) {
            to = WriteEntry(*block, to, entry);
        }
    }
}

void MergeLists(const LocalView& dst, const ListMerge& merge, const Call& call)
{
    const Entry block(call);
    const size_t lists = CheckMerge(*block, dst, merge, call);
    if (HasNoRepeats(*block, merge.repeats, call)) {
        return;
    }
    int64_t to = dst.address;
    for (int64_t repeat = 0; repeat < merge.repeats; ++repeat) {
        std::array<std::vector<SortEntry>, kLists> entries;
        std::array<size_t, kLists> taken{};
        int64_t left = 0;
        for (size_t list = 0; list < lists; ++list) {
            entries[list] =
                ReadEntries(*block, *merge.lists[list], repeat * merge.lengths[0] * static_cast<int64_t>(kLists),
                            merge.lengths[list], call);
            RequireDescending(*block, entries[list], list, call);
            left += merge.lengths[list];
        }
        for (bool isSuspended = false; left > 0 && !isSuspended; --left) {
            size_t best = kLists;
            for (size_t list = 0; list < lists; ++list) {
                const bool hasMore = taken[list] < entries[list].size();
                if (hasMore &&
                    (best == kLists || entries[list][taken[list]].value > entries[best][taken[best]].value)) {
                    best = list;
                }
            }
            Touched(*block, AccessKind::kWrite, to, kEntryBytes, "dst", call);
            to = WriteEntry(*block, to, entries[best][taken[best]++]);
            isSuspended = merge.suspends && taken[best] == entries[best].size();
        }
        std::array<uint16_t, kLists>& counts = block->registers.mergedCounts.emplace();
        for (size_t list = 0; list < kLists; ++list) {
            counts[list] = static_cast<uint16_t>(taken[list]);
        }
    }
    const int64_t written = to - dst.address;
    const int64_t entriesWritten = written / kEntryBytes;
    block->timeline.RunVector(static_cast<double>(entriesWritten) * time_model::kMrgsortCyclesPerElement, call);
}

void MergedCounts(uint16_t* counts, const Call& call)
{
    const Entry block(call);
    if (!block->registers.mergedCounts) {
        block->Fail("no_reduction", Pipe::kScalar, call, "there is no result; call MrgSort before");
    }
    std::copy(block->registers.mergedCounts->begin(), block->registers.mergedCounts->end(), counts);
    block->ordering.OrderInside(Pipe::kVector, Pipe::kScalar);  // the counts are in a register of the vector unit
}

void MergeRepeats(const LocalView& dst, const LocalView& scratch, int64_t repeats, const Call& call)
{
    const Entry block(call);
    if (repeats < 2) {
        return;
    }
    const int64_t count = repeats * kPerRepeat;
    const int64_t bytes = count * kEntryBytes;
    if (scratch.address < dst.address + bytes && dst.address < scratch.address + bytes) {
        block->Fail("overlap", Pipe::kVector, call, "dst and tmp overlap; merge by way of another buffer");
    }
    block->checks.Use(scratch, bytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "tmp", call);
    block->ordering.PassBarrier(Pipe::kVector);  // the API waits for its instructions
    std::vector<SortEntry> entries = ReadEntries(*block, dst, 0, count, call);
    std::stable_sort(entries.begin(), entries.end(),
                     [](const SortEntry& a, const SortEntry& b) { return a.value > b.value; });
    Touched(*block, AccessKind::kWrite, dst.address, bytes, "dst", call);
    int64_t to = dst.address;
    for (const SortEntry& entry : entries) {
        to = WriteEntry(*block, to, entry);
    }
    int64_t rounds = 0;
    for (int64_t lists = repeats; lists > 1; lists = (lists + 3) / 4) {
        ++rounds;
    }
    block->timeline.RunVector(static_cast<double>(rounds * count) * time_model::kMrgsortCyclesPerElement, call);
    Touched(*block, AccessKind::kWrite, scratch.address, bytes, "tmp", call);
    block->local.Poison(scratch.address, bytes, {call, "used it as scratch"});
}

void SplitEntries(const LocalView& values, const LocalView& indices, const LocalView& sorted, int64_t repeats,
                  const Call& call)
{
    const Entry block(call);
    Field("repeatTime", repeats, 0, kMaxRepeats, call);
    if (HasNoRepeats(*block, repeats, call)) {
        return;
    }
    const int64_t count = repeats * kPerRepeat;
    // For half, the device also fills the second half of twice as many indices.
    const int64_t indexRoom = count * kIndexAt * (values.dtype == Dtype::kFloat16 ? 2 : 1);
    block->checks.Use(sorted, count * kEntryBytes, Pipe::kVector, AccessKind::kRead, kBlockBytes, "sorted", call);
    block->checks.Use(values, count * values.size, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dstValue", call);
    block->checks.Use(indices, indexRoom, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dstIndex", call);
    RequireApart(*block, values.address, count * values.size, sorted.address, count * kEntryBytes, "sorted", call);
    RequireApart(*block, indices.address, indexRoom, sorted.address, count * kEntryBytes, "sorted", call);
    block->timeline.RunVector(2.0 * static_cast<double>(repeats) * time_model::kVectorCyclesPerRepeat, call);
    TouchEntries(*block, sorted.address, count, values.size, "sorted", call);
    Touched(*block, AccessKind::kWrite, values.address, count * values.size, "dstValue", call);
    Touched(*block, AccessKind::kWrite, indices.address, indexRoom, "dstIndex", call);
    for (int64_t entry = 0; entry < count; ++entry) {
        const uint8_t* from = block->local.At(sorted.address + entry * kEntryBytes);
        std::copy_n(from, values.size, block->local.At(values.address + entry * values.size));
        std::copy_n(from + kIndexAt, kIndexAt, block->local.At(indices.address + entry * kIndexAt));
        const uint8_t state = block->local.StateOf(sorted.address + entry * kEntryBytes + kIndexAt, kIndexAt);
        block->local.PassState(indices.address + entry * kIndexAt, kIndexAt, state);
    }
    block->local.Poison(indices.address + count * kIndexAt, indexRoom - count * kIndexAt,
                        {call, "left it undefined, in the second half of dstIndex"});
}

}  // namespace opforge::twin::kernel
