#include "kernel/order/local_order.h"

#include <algorithm>

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

const LocalOrder::UserPipes& PipesOf(CoreKind kind)
{
    // Never destroyed: launches of a stream can still run when the process destroys its objects.
    using UserPipes = LocalOrder::UserPipes;
    static const auto& vector = *new UserPipes{Pipe::kScalar, Pipe::kVector, Pipe::kMte2, Pipe::kMte3};
    static const auto& cube = *new UserPipes{Pipe::kCube, Pipe::kMte1, Pipe::kMte2, Pipe::kFix};
    static const auto& coupled =
        *new UserPipes{Pipe::kScalar, Pipe::kVector, Pipe::kCube, Pipe::kMte1, Pipe::kMte2, Pipe::kMte3};
    return kind == CoreKind::kCube ? cube : kind == CoreKind::kVector ? vector : coupled;
}

/// Whether any time is later than `known`. A plain loop, so that the compiler vectorizes it.
bool AnyLater(const uint32_t* times, int64_t count, uint32_t known)
{
    uint32_t later = 0;
    for (int64_t index = 0; index < count; ++index) {
        later |= static_cast<uint32_t>(times[index] > known);
    }
    return later != 0;
}

/// Whether the compiler inserts flags and barriers between instructions of two pipes that use the same bytes.
bool IsOrderedByCompiler(Pipe from, Pipe to)
{
    return from == Pipe::kScalar || to == Pipe::kScalar || (from == Pipe::kVector && to == Pipe::kVector);
}

}  // namespace

uint32_t BytesIn(int64_t block, int64_t begin, int64_t end)
{
    const int64_t low = std::max(begin - block * kBlockBytes, int64_t{0});
    const int64_t high = std::min(end - block * kBlockBytes, kBlockBytes);
    return (~uint32_t{0} >> (kBlockBytes - (high - low))) << low;
}

LocalOrder::LocalOrder(CoreKind kind, bool isOn, bool isAutomatic)
    : isOn_(isOn), isAutomatic_(isAutomatic && kind != CoreKind::kCube), pipes_(PipesOf(kind))
{
}

void LocalOrder::Uses::Reach(size_t blocks)
{
    if (time.size() < blocks) {
        time.resize(blocks);
        bytes.resize(blocks);
        site.resize(blocks);
    }
}

size_t LocalOrder::UserOf(Pipe pipe) const
{
    return static_cast<size_t>(std::find(pipes_.begin(), pipes_.end(), pipe) - pipes_.begin());
}

/// The last instruction of `pipe` that no later access can conflict with.
uint32_t LocalOrder::SettledTime(Pipe pipe, const CoreOrder& order)
{
    auto& [changes, settled] = settled_[static_cast<size_t>(pipe)];
    if (changes == order.Changes()) {
        return settled;
    }
    changes = order.Changes();
    settled = ~uint32_t{0};
    for (const Pipe user : pipes_) {
        if (pipe != Pipe::kScalar || user != Pipe::kScalar) {
            settled = std::min(settled, order.Before(user).Of(pipe));
        }
    }
    return settled;
}

std::optional<Conflict> LocalOrder::Find(const Access& access, size_t user, bool isWrite, uint32_t known)
{
    const Uses& uses = Of(user, isWrite);
    const int64_t end = access.begin + access.bytes;
    const int64_t first = access.begin / kBlockBytes;
    const int64_t last = std::min((end - 1) / kBlockBytes, static_cast<int64_t>(uses.time.size()) - 1);
    if (first > last || !AnyLater(uses.time.data() + first, last - first + 1, known)) {
        return std::nullopt;
    }
    std::optional<Conflict> found;
    for (int64_t block = first; block <= last; ++block) {
        const auto at = static_cast<size_t>(block);
        const bool isLater = uses.time[at] > known && (uses.bytes[at] & BytesIn(block, access.begin, end)) != 0;
        if (found && (!isLater || uses.site[at] != found->site)) {
            break;
        }
        if (isLater) {
            const int64_t begin = std::max(access.begin, block * kBlockBytes);
            found = {0,
                     pipes_[user],
                     isWrite ? AccessKind::kWrite : AccessKind::kRead,
                     uses.time[at],
                     uses.site[at],
                     found ? found->begin : begin,
                     std::min(end, (block + 1) * kBlockBytes)};
        }
    }
    return found;
}

/// Keeps the latest conflict in `found`: its missing flag can be the cause of the others.
void LocalOrder::Consider(const Access& access, size_t user, bool isWrite, CoreOrder& order,
                          std::optional<Conflict>& found)
{
    const Clock& before = order.Before(access.pipe);
    auto conflict = Find(access, user, isWrite, before.Of(pipes_[user]));
    while (conflict && isAutomatic_ && IsOrderedByCompiler(pipes_[user], access.pipe)) {
        order.Wait(access.pipe, order.After(pipes_[user], conflict->time));
        conflict = Find(access, user, isWrite, before.Of(pipes_[user]));
    }
    if (conflict && (!found || conflict->time > found->time)) {
        found = conflict;
    }
}

std::optional<Conflict> LocalOrder::Note(const Access& access, uint32_t now, uint32_t site, CoreOrder& order)
{
    if (!isOn_) {
        return std::nullopt;
    }
    Begin(now);
    const bool writes = access.kind != AccessKind::kRead;
    const Clock& before = order.Before(access.pipe);
    std::optional<Conflict> found;
    for (size_t user = 0; user < Users(); ++user) {
        if (access.pipe == Pipe::kScalar && pipes_[user] == Pipe::kScalar) {
            continue;  // the scalar unit finishes each instruction before the next one
        }
        // Most of the time, all earlier instructions of the other pipe have finished.
        if (Of(user, true).latest > before.Of(pipes_[user])) {
            Consider(access, user, true, order, found);
        }
        if (writes && Of(user, false).latest > before.Of(pipes_[user])) {
            Consider(access, user, false, order, found);
        }
    }
    const int64_t end = access.begin + access.bytes;
    // The bytes of whole blocks belong to this access, independent of `settled`.
    const bool isWhole = access.begin % kBlockBytes == 0 && end % kBlockBytes == 0;
    Use& use = pending_.emplace_back();  // filled in place: a copy waits for the stores of its parts
    use.user = UserOf(access.pipe);
    use.isWrite = writes;
    use.begin = access.begin;
    use.end = end;
    use.site = site;
    use.settled = isWhole ? 0 : SettledTime(access.pipe, order);
    return found;
}

void LocalOrder::Begin(uint32_t now)
{
    if (now != now_) {
        RecordPending();
        now_ = now;
    }
}

std::optional<uint32_t> LocalOrder::LastWriter(int64_t address, uint32_t now)
{
    if (!isOn_) {
        return std::nullopt;
    }
    Begin(now);
    const int64_t block = address / kBlockBytes;
    const auto at = static_cast<size_t>(block);
    std::optional<uint32_t> site;
    uint32_t last = 0;
    for (size_t user = 0; user < Users(); ++user) {
        const Uses& writes = Of(user, true);
        if (at < writes.time.size() && writes.time[at] > last &&
            (writes.bytes[at] & BytesIn(block, address, address + 1)) != 0) {
            last = writes.time[at];
            site = writes.site[at];
        }
    }
    return site;
}

void LocalOrder::RecordPending()
{
    for (const Use& use : pending_) {
        Uses& uses = Of(use.user, use.isWrite);
        const int64_t first = use.begin / kBlockBytes;
        const int64_t last = (use.end - 1) / kBlockBytes;
        uses.Reach(static_cast<size_t>(last + 1));
        uses.latest = now_;
        const auto touch = [&](int64_t border) {
            const auto at = static_cast<size_t>(border);
            uses.bytes[at] = BytesIn(border, use.begin, use.end) | (uses.time[at] <= use.settled ? 0 : uses.bytes[at]);
        };
        touch(first);
        if (first == last) {  // most accesses are small
            uses.time[static_cast<size_t>(first)] = now_;
            uses.site[static_cast<size_t>(first)] = use.site;
            continue;
        }
        touch(last);
        std::fill(uses.time.begin() + first, uses.time.begin() + last + 1, now_);
        std::fill(uses.site.begin() + first, uses.site.begin() + last + 1, use.site);
        if (last > first) {
            std::fill(uses.bytes.begin() + first + 1, uses.bytes.begin() + last, ~uint32_t{0});
        }
    }
    pending_.clear();
}

void LocalOrder::Forget(int64_t begin, int64_t bytes)
{
    RecordPending();
    const int64_t first = begin / kBlockBytes;
    const int64_t last = CeilDiv(begin + bytes, kBlockBytes);
    for (Uses& uses : uses_) {
        const int64_t end = std::min(last, static_cast<int64_t>(uses.time.size()));
        if (first < end) {
            std::fill(uses.time.begin() + first, uses.time.begin() + end, 0U);
        }
    }
}

}  // namespace opforge::twin::kernel
