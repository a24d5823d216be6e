// One block of a launch: its core, with all state that its instructions read and change.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H
#define OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H

#include <memory>
#include <set>
#include <stdexcept>

#include "kernel/exec/diagnostics.h"
#include "kernel/exec/registers.h"
#include "kernel/memory/access_checks.h"
#include "kernel/order/ordering.h"
#include "kernel/timing/accounting.h"

namespace opforge::twin::kernel {

struct MatmulBuffers;

class Block {
public:
    Block(LaunchState& launch, uint32_t index);

    void Require(CoreKind kind, const Call& call) { diagnostics.Require(kind, call); }
    void RequirePipe(Pipe pipe, const Call& call) { diagnostics.RequirePipe(pipe, call); }
    void Report(const char* kind, Pipe pipe, const Call& call, const std::string& message)
    {
        diagnostics.Report(kind, pipe, call, message);
    }
    void Warn(const char* kind, Pipe pipe, const Call& call, const std::string& message)
    {
        diagnostics.Warn(kind, pipe, call, message);
    }
    [[noreturn]] void Fail(const char* kind, Pipe pipe, const Call& call, const std::string& message)
    {
        diagnostics.Fail(kind, pipe, call, message);
    }

    /// KERNEL_TASK_TYPE_DEFAULT; ends the block if the launch has other cores than the type.
    void Declare(const TaskType& type, const Call& call);
    /// The declared type, or that of the launch.
    const TaskType& Type() const { return declared_ == nullptr ? launch.layout.Type() : *declared_; }
    /// How vector cores use cube cores. A kernel uses one way.
    enum class CubeUse : uint8_t { kNone, kMatmul, kGroups };
    void UseCubes(CubeUse use, const Call& call);
    /// TILING_KEY_IS
    bool HasTilingKey(uint64_t key);
    /// Checks the state of the core after the kernel function has returned.
    void Finish();

    LaunchState& launch;
    const uint32_t index;  ///< core of the launch
    const CorePosition position;
    Execution execution;
    Diagnostics diagnostics;
    Registers registers;
    LocalMemory local;
    Timeline timeline;
    Ordering ordering;
    Accounting accounting;
    AccessChecks checks;
    std::shared_ptr<MatmulBuffers> matmul;  ///< of the Matmul API; null until it is used

private:
    const TaskType* declared_ = nullptr;
    Declaration declaration_ = Declaration::kNone;
    CubeUse cubeUse_ = CubeUse::kNone;
    std::set<uint64_t> askedKeys_;
};

/// The block that runs on this thread; null outside of a launch.
Block*& CurrentBlock();

/// Host code has called a function of the device.
struct OutsideLaunch : std::logic_error {
    using std::logic_error::logic_error;
};

/// The first statement of every API function: finds the block and checks for a request of the watchdog to stop.
class Entry {
public:
    explicit Entry(const Call& call);
    ~Entry() { block_.execution.SetInKernel(!block_.execution.IsStopped()); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    Block* operator->() const { return &block_; }
    Block& operator*() const { return block_; }

private:
    Block& block_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_BLOCK_H
