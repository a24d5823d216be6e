#include "kernel/exec/block.h"

#include <algorithm>
#include <cstring>

#include "kernel/exec/guarded_call.h"

namespace opforge::twin::kernel {

namespace {

/// Checks the stack of the kernel, whose innermost frame is at `frame`.
void CheckStack(Block& block, uintptr_t frame, const Call& running)
{
    const KernelStack& stack = block.execution.stack;
    const Call call{running.name, running.at ? running.at : block.execution.LastCall().at};
    if (frame < stack.limit) {
        block.Fail("stack_overflow", Pipe::kScalar, call,
                   Text("the stack is full; the device has ", kDeviceStackBytes,
                        " bytes for it; remove recursion and large local arrays"));
    }
    if (stack.base - frame > kDeviceStackBytes) {
        block.Report("stack_size", Pipe::kScalar, call,
                     Text("the kernel has ", stack.base - frame, " bytes on the stack here, the device has ",
                          kDeviceStackBytes, "; remove recursion and large local arrays, or use a TBuf"));
    }
}

}  // namespace

Block*& CurrentBlock()
{
    thread_local Block* current = nullptr;
    return current;
}

Entry::Entry(const Call& call)
    : block_(CurrentBlock() != nullptr
                 ? *CurrentBlock()
                 : throw OutsideLaunch(Text(Where(call.at), call.at ? ": " : "", call.name,
                                            ": called outside of a launch, expected a call in a kernel; remove it from "
                                            "the host code")))
{
    block_.execution.SetInKernel(false);
    block_.execution.Issue(call);
    CheckStack(block_, reinterpret_cast<uintptr_t>(__builtin_frame_address(0)), call);
    if (block_.execution.IsCancelled()) {
        block_.diagnostics.Stop();
    }
    if (block_.execution.IsInterrupted()) {
        block_.Fail("endless_loop", Pipe::kScalar, call,
                    "the block reached its time limit here; remove an endless loop, or set OPFORGE_TWIN_TIMEOUT "
                    "(seconds) for a long kernel");
    }
}

Block::Block(LaunchState& launchState, uint32_t core)
    : launch(launchState),
      index(core),
      position(launchState.layout.At(core)),
      diagnostics(launchState, position, execution),
      local(position.kind, launchState.soc, launchState.options.level, launchState.options.strict,
            std::array<uint8_t, 4>{0x7B, 0xFB, 0x7A, 0xFA}[launchState.seed % 4]),
      timeline(!launchState.tracePath.empty(),
               launchState.hasLines ? std::make_unique<LineRecorder>(launchState.chains, launchState.sites, execution)
                                    : nullptr),
      ordering(launchState, core, execution, diagnostics, timeline),
      accounting(launchState, registers.atomic, timeline),
      checks(launchState, core, execution, diagnostics, local, ordering.Clocks())
{
}

void Block::Declare(const TaskType& type, const Call& call)
{
    const TaskType& running = launch.layout.Type();
    const Declaration by = std::strcmp(call.name, "KERNEL_TASK_TYPE") == 0 ? Declaration::kKey : Declaration::kDefault;
    if (by < std::max(declaration_, launch.declaration)) {
        return;
    }
    declaration_ = by;
    declared_ = &type;
    if (type.cubes == running.cubes && type.vectors == running.vectors) {
        return;
    }
    if (by == launch.declaration) {
        Fail("task_type", Pipe::kScalar, call,
             Text("got ", type.name, ", but another block or branch has declared ", running.name,
                  "; all blocks of a launch declare one type"));
    }
    launch.declaredBy = by;
    launch.declared = &type;
    diagnostics.Stop();
}

void Block::UseCubes(CubeUse use, const Call& call)
{
    if (cubeUse_ != CubeUse::kNone && cubeUse_ != use) {
        Fail("api_contract", Pipe::kScalar, call,
             "a kernel has either groups of cube cores or REGIST_MATMUL_OBJ; in a group, use MatmulImpl without it");
    }
    cubeUse_ = use;
}

bool Block::HasTilingKey(uint64_t key)
{
    askedKeys_.insert(key);
    return launch.request.tilingKey == key;
}

void Block::Finish()
{
    if (!askedKeys_.empty() && askedKeys_.count(launch.request.tilingKey) == 0) {
        std::string branches;
        for (const uint64_t key : askedKeys_) {
            branches += Text(branches.empty() ? "" : ", ", key);
        }
        Report("tiling_key", Pipe::kScalar, {kKernelEnd, {}},
               Text("no TILING_KEY_IS branch of the kernel has key ", launch.request.tilingKey, ", expected one of ",
                    branches, "; make tilingKey in the plan one of the spec's keys"));
    }
    ordering.ReportLeft();
    registers.ReportLeft(diagnostics, launch.options.level);
    checks.ReportLeft();
}

}  // namespace opforge::twin::kernel
