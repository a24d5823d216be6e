#include "kernel/order/race.h"

#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

namespace {

/// The fix for the missing order.
std::string Repair(Pipe from, Pipe to, bool isSameCore)
{
    if (!isSameCore) {
        return "no SyncAll or flag between cores orders them; put a SyncAll in between, or give each core its "
               "own bytes";
    }
    if (from == to) {
        return Text("an instruction of a pipe may start before the earlier one has finished; put PipeBarrier<PIPE_",
                    Name(to), ">() in between");
    }
    const AscendC::HardEvent event = EventOf(from, to);
    return Text("the order ", Name(from), " before ", Name(to), " is missing; put SetFlag<HardEvent::", Name(event),
                ">(id) after the first and WaitFlag<HardEvent::", Name(event), ">(id) before the second");
}

const char* NameOf(AccessKind earlier, AccessKind later)
{
    return earlier == AccessKind::kRead ? "write after read"
           : later == AccessKind::kRead ? "read after write"
                                        : "write after write";
}

const char* Verb(AccessKind kind)
{
    return kind == AccessKind::kRead ? "reads" : kind == AccessKind::kWrite ? "writes" : "adds to";
}

}  // namespace

std::string DescribeRace(const Access& access, const Conflict& conflict, const Site& earlier, bool isSameCore,
                         const std::string& other, const std::string& memory, int64_t begin)
{
    return Text(access.operand, " ", Verb(access.kind), " bytes [", begin, ", ", begin + conflict.end - conflict.begin,
                ") of ", memory, " on pipe ", Name(access.pipe), ", which ", earlier.operand, " of ", earlier.name,
                " at ", Where(earlier.at), " ", Verb(conflict.kind), " on pipe ", Name(conflict.pipe),
                isSameCore ? std::string() : Text(" of ", other), " (", NameOf(conflict.kind, access.kind),
                "): ", Repair(conflict.pipe, access.pipe, isSameCore));
}

}  // namespace opforge::twin::kernel
