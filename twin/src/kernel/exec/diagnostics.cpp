#include "kernel/exec/diagnostics.h"

#include <utility>

namespace opforge::twin::kernel {

namespace {

constexpr size_t kMaxFindings = 100;  // of one block; a broken loop repeats the same error

}  // namespace

void Diagnostics::Report(const char* kind, Pipe pipe, const Call& call, const std::string& message)
{
    Record(kind, pipe, call, message, false);
}

void Diagnostics::Warn(const char* kind, Pipe pipe, const Call& call, const std::string& message)
{
    Record(kind, pipe, call, message, true);
}

void Diagnostics::Record(const char* kind, Pipe pipe, const Call& call, const std::string& message, bool isWarning)
{
    if (findings_.size() >= kMaxFindings) {
        return;
    }
    std::string where = Where(call.at);
    for (const Finding& known : findings_) {
        if (known.kind == kind && known.where == where) {
            return;
        }
    }
    std::string text = Text(launch_.request.opType, " (tiling key ", launch_.request.tilingKey,
                            launch_.layout.IsMixed() ? Text(", ", Name(position_.kind)) : std::string(),
                            "): ", call.name, ": ", message);
    findings_.push_back(
        {kind, static_cast<int64_t>(position_.blockIndex), Name(pipe), std::move(where), std::move(text), isWarning});
}

void Diagnostics::Fail(const char* kind, Pipe pipe, const Call& call, const std::string& message)
{
    Report(kind, pipe, call, message);
    Stop();
}

void Diagnostics::Stop()
{
    execution_.Stop();
    throw Stopped{};
}

void Diagnostics::Require(CoreKind kind, const Call& call)
{
    if (position_.kind != kind && position_.kind != CoreKind::kCoupled) {
        Fail("core_kind", Pipe::kScalar, call,
             Text("this is for ", Name(kind), " cores, the block runs on an ", Name(position_.kind),
                  " core; use `if ASCEND_IS_", Name(kind), "`"));
    }
}

void Diagnostics::RequirePipe(Pipe wanted, const Call& call)
{
    constexpr PipeSet vector = PipeSet::Of(Pipe::kScalar, Pipe::kVector, Pipe::kMte2, Pipe::kMte3, Pipe::kAll);
    // Cube cores copy from L1 to global memory on MTE3.
    constexpr PipeSet cube =
        PipeSet::Of(Pipe::kScalar, Pipe::kCube, Pipe::kMte1, Pipe::kMte2, Pipe::kMte3, Pipe::kFix, Pipe::kAll);
    constexpr PipeSet both =
        PipeSet::Of(Pipe::kScalar, Pipe::kVector, Pipe::kCube, Pipe::kMte1, Pipe::kMte2, Pipe::kMte3, Pipe::kAll);
    const bool isCoupled = position_.kind == CoreKind::kCoupled;
    if (!(isCoupled ? both : position_.kind == CoreKind::kCube ? cube : vector).Has(wanted)) {
        Fail("core_kind", wanted, call,
             Text(Name(position_.kind), " cores have no pipe ", Name(wanted),
                  isCoupled                           ? "; copy L0C to the unified buffer with DataCopy on PIPE_V"
                  : position_.kind == CoreKind::kCube ? "; use `if ASCEND_IS_AIV`"
                                                      : "; use `if ASCEND_IS_AIC`"));
    }
}

}  // namespace opforge::twin::kernel
