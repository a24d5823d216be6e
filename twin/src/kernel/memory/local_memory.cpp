#include "kernel/memory/local_memory.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/levels.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::TPosition;
using Id = LocalUnit::Id;

constexpr int64_t kBiasTableBytes = 1024;
constexpr int64_t kFixpipeBytes = 7168;
// The platform reports slightly less than the size of the unified buffer and of L1, which are multiples of this.
constexpr int64_t kSizeStep = 1024;

std::vector<LocalUnit> UnitsOf(CoreKind kind, const SocFigures& soc, Level level)
{
    constexpr const char* budget = "cube_budget";
    constexpr const char* range = "cube_out_of_range";
    constexpr const char* alignment = "cube_misaligned";
    std::vector<LocalUnit> units;
    const auto add = [&](Id id, const char* name, int64_t bytes, PipeSet writers, PipeSet readers) {
        const int64_t begin = units.empty() ? 0 : units.back().begin + units.back().bytes;
        units.push_back({id, name, budget, range, alignment, writers, readers, begin, bytes, bytes});
    };
    if (kind != CoreKind::kCube) {
        constexpr PipeSet vector = PipeSet::Of(Pipe::kScalar, Pipe::kVector, Pipe::kMte2, Pipe::kMte3);
        constexpr PipeSet both = PipeSet::Of(Pipe::kScalar, Pipe::kVector, Pipe::kMte1, Pipe::kMte2, Pipe::kMte3);
        const PipeSet& writers = kind == CoreKind::kCoupled ? both : vector;
        const int64_t bytes = RoundUp(soc.ubBytes, kSizeStep);
        units.push_back({Id::kUnifiedBuffer, "unified buffer", "ub_budget", "ub_out_of_range", "ub_misaligned", writers,
                         vector, 0, bytes, kReservedBuffer.Has(level) ? soc.ubBytes : bytes});
    }
    if (kind == CoreKind::kVector) {
        return units;
    }
    const int64_t l1Bytes = BytesOfL1(soc, level);
    if (kind == CoreKind::kCoupled) {
        add(Id::kL1, "L1", l1Bytes, PipeSet::Of(Pipe::kMte2, Pipe::kMte3), PipeSet::Of(Pipe::kMte1));
        add(Id::kL0A, "L0A", soc.l0aBytes, PipeSet::Of(Pipe::kMte1, Pipe::kMte2), PipeSet::Of(Pipe::kCube));
        add(Id::kL0B, "L0B", soc.l0bBytes, PipeSet::Of(Pipe::kMte1, Pipe::kMte2), PipeSet::Of(Pipe::kCube));
        add(Id::kL0C, "L0C", soc.l0cBytes, PipeSet::Of(Pipe::kCube), PipeSet::Of(Pipe::kCube, Pipe::kVector));
        return units;
    }
    add(Id::kL1, "L1", l1Bytes, PipeSet::Of(Pipe::kMte2, Pipe::kFix),
        PipeSet::Of(Pipe::kMte1, Pipe::kMte3, Pipe::kFix));
    add(Id::kL0A, "L0A", soc.l0aBytes, PipeSet::Of(Pipe::kMte1, Pipe::kMte2), PipeSet::Of(Pipe::kCube));
    add(Id::kL0B, "L0B", soc.l0bBytes, PipeSet::Of(Pipe::kMte1, Pipe::kMte2), PipeSet::Of(Pipe::kCube));
    add(Id::kL0C, "L0C", soc.l0cBytes, PipeSet::Of(Pipe::kCube), PipeSet::Of(Pipe::kCube, Pipe::kFix));
    add(Id::kBias, "bias table", kBiasTableBytes, PipeSet::Of(Pipe::kMte1), PipeSet::Of(Pipe::kCube));
    add(Id::kFixpipe, "fixpipe buffer", kFixpipeBytes, PipeSet::Of(Pipe::kFix), PipeSet::Of(Pipe::kFix));
    return units;
}

std::optional<Id> IdOf(TPosition position)
{
    switch (position) {
        case TPosition::VECIN:
        case TPosition::VECOUT:
        case TPosition::VECCALC:
            return Id::kUnifiedBuffer;
        case TPosition::A1:
        case TPosition::B1:
        case TPosition::C1:
        case TPosition::TSCM:
            return Id::kL1;
        case TPosition::A2:
            return Id::kL0A;
        case TPosition::B2:
            return Id::kL0B;
        case TPosition::C2:
            return Id::kBias;
        case TPosition::C2PIPE2GM:
            return Id::kFixpipe;
        case TPosition::CO1:
            return Id::kL0C;
        default:
            return std::nullopt;
    }
}

}  // namespace

int64_t BytesOfL1(const SocFigures& soc, Level level)
{
    return kReservedBuffer.Has(level) ? soc.l1Bytes : RoundUp(soc.l1Bytes, kSizeStep);
}

LocalMemory::LocalMemory(CoreKind kind, const SocFigures& soc, Level level, bool shadowed, uint8_t poison)
    : shadowed_(shadowed), poison_(poison), units_(UnitsOf(kind, soc, level))
{
    const auto bytes = static_cast<size_t>(units_.back().begin + units_.back().bytes);
    bytes_.assign(bytes, poison);
    written_.assign(shadowed ? bytes : 0, 0);
}

void LocalMemory::Poison(int64_t begin, int64_t bytes, const Origin& origin)
{
    if (shadowed_ && bytes != 0) {
        std::memset(bytes_.data() + begin, poison_, static_cast<size_t>(bytes));
        std::memset(written_.data() + begin, NumberOf(origin), static_cast<size_t>(bytes));
    }
}

uint8_t LocalMemory::NumberOf(const Origin& origin)
{
    const auto isSame = [&](const Origin& known) {
        return known.call.at == origin.call.at && known.effect == origin.effect && known.region == origin.region;
    };
    if (lastOrigin_ >= origins_.size() || !isSame(origins_[lastOrigin_])) {
        const auto found = std::find_if(origins_.begin(), origins_.end(), isSame);
        lastOrigin_ = static_cast<size_t>(found - origins_.begin());
        if (lastOrigin_ + kFirstOrigin > UINT8_MAX) {
            return kUndefined;
        }
        if (found == origins_.end()) {
            origins_.push_back(origin);
        }
    }
    return static_cast<uint8_t>(lastOrigin_ + kFirstOrigin);
}

const Origin* LocalMemory::OriginOf(int64_t address) const
{
    const uint8_t number = shadowed_ ? written_[static_cast<size_t>(address)] : kUndefined;
    return number < kFirstOrigin ? nullptr : &origins_[number - kFirstOrigin];
}

void LocalMemory::MarkWritten(int64_t begin, int64_t bytes)
{
    if (shadowed_) {
        std::memset(written_.data() + begin, kWritten, static_cast<size_t>(bytes));
    }
}

int64_t LocalMemory::FirstUnwritten(int64_t begin, int64_t bytes) const
{
    if (!shadowed_) {
        return -1;
    }
    const uint8_t* first = written_.data() + begin;
    // Bytes that are all equal to their neighbour and to kWritten: the comparison of the library is fast.
    if (*first == kWritten && std::memcmp(first, first + 1, static_cast<size_t>(bytes - 1)) == 0) {
        return -1;
    }
    const uint8_t* end = first + bytes;
    const uint8_t* found = std::find_if(first, end, [](uint8_t state) { return state != kWritten; });
    return found == end ? -1 : found - written_.data();
}

void LocalMemory::CollectUndefined(int64_t begin, int64_t count, int64_t size, std::vector<uint8_t>& states) const
{
    if (FirstUnwritten(begin, count * size) < 0) {
        return;
    }
    states.resize(static_cast<size_t>(count), kWritten);
    for (int64_t index = 0; index < count; ++index) {
        const uint8_t* first = written_.data() + begin + index * size;
        const uint8_t* found = std::find_if(first, first + size, [](uint8_t state) { return state != kWritten; });
        if (found != first + size) {
            states[static_cast<size_t>(index)] = *found;
        }
    }
}

void LocalMemory::PropagateUndefined(int64_t begin, int64_t size, const std::vector<uint8_t>& states)
{
    for (size_t index = 0; index < states.size(); ++index) {
        if (states[index] != kWritten) {
            std::memset(written_.data() + begin + static_cast<int64_t>(index) * size, states[index],
                        static_cast<size_t>(size));
        }
    }
}

uint8_t LocalMemory::StateOf(int64_t begin, int64_t bytes) const
{
    const int64_t unwritten = bytes == 0 ? -1 : FirstUnwritten(begin, bytes);
    return unwritten < 0 ? kWritten : written_[static_cast<size_t>(unwritten)];
}

void LocalMemory::PassState(int64_t begin, int64_t bytes, uint8_t state)
{
    if (shadowed_ && state != kWritten) {
        std::memset(written_.data() + begin, state, static_cast<size_t>(bytes));
    }
}

bool LocalMemory::HasWritten(int64_t begin, int64_t bytes) const
{
    return !shadowed_ || std::memchr(written_.data() + begin, kWritten, static_cast<size_t>(bytes)) != nullptr;
}

LocalUnit* LocalMemory::UnitAt(TPosition position)
{
    const std::optional<Id> id = IdOf(position);
    const auto unit =
        std::find_if(units_.begin(), units_.end(), [&](const LocalUnit& candidate) { return candidate.id == id; });
    return unit == units_.end() ? nullptr : &*unit;
}

const LocalUnit& LocalMemory::UnitOf(int64_t address) const
{
    const auto next = std::find_if(units_.begin() + 1, units_.end(),
                                   [&](const LocalUnit& candidate) { return candidate.begin > address; });
    return *(next - 1);
}

const FixedArray* LocalMemory::ArrayAt(int64_t address) const
{
    const auto found = std::find_if(arrays.begin(), arrays.end(), [&](const FixedArray& array) {
        return address >= array.begin && address < array.end;
    });
    return found == arrays.end() ? nullptr : &*found;
}

void LocalMemory::FreeAll(const Location& at)
{
    oldestGeneration = generation + 1;
    firstQueue += static_cast<uint32_t>(queues.size());
    endedAt = at;
    firstPool += static_cast<uint32_t>(pools.size());
    buffers.clear();
    queues.clear();
    pools.clear();
    for (LocalUnit& unit : units_) {
        unit.used = 0;
    }
}

}  // namespace opforge::twin::kernel
