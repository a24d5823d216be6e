// The kernel launch interface for the host side of the twin: request and report.
#ifndef OPFORGE_TWIN_LAUNCH_H
#define OPFORGE_TWIN_LAUNCH_H

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opforge::twin {

namespace kernel {
class WrittenBytes;
}

/// One tensor argument of a kernel with its exact size: accesses outside [data, data + bytes) are findings. `data` may
/// be null (absent optional argument) and `bytes` may be 0 (empty tensor).
struct GmArgument {
    void* data = nullptr;
    uint64_t bytes = 0;
    bool isOutput = false;
    bool isInput = false;  ///< initialized at launch; other arguments are undefined until the kernel writes them
    std::string name;
    uint64_t misalignment = 0;  ///< bytes from the previous 512-byte boundary to `data` on the device
    std::vector<int64_t> shape{};
    int64_t elementBytes = 0;  ///< 0: the shape is not known
    bool isHostList = false;   ///< the host functions read the values, so the kernel may ignore them
    bool hasPadding = false;   ///< the format has elements without a value
    uint64_t address = 0;      ///< the address that the kernel uses; 0: the launch selects one
    /// The bytes of an input that have a value; null: all of them. The launch adds the bytes that the kernel writes.
    std::shared_ptr<kernel::WrittenBytes> written{};
    /// The argument is the descriptor of a list of tensors: these arguments, in order. The launch writes it.
    std::vector<size_t> members{};
    bool isList = false;
    bool isMember = false;  ///< a tensor of a list: the kernel has no parameter for it
};

/// Size of the system part at the start of the workspace; the user part of a kernel follows.
inline constexpr uint64_t kSystemWorkspaceBytes = uint64_t{16} << 20;

enum class ByteUse : uint8_t { kRead, kWrite, kAtomic };
struct ByteRange {
    uint64_t begin;
    uint64_t end;
};

/// For each ByteUse, sorted bytes with this use: not necessarily all of them.
using AccessedBytes = std::array<std::vector<ByteRange>, 3>;

struct LaunchRequest {
    std::string opType;
    void* function = nullptr;           ///< address of the `extern "C" __global__` kernel function
    std::function<void()> body{};       ///< calls the kernel with its arguments; then `function` is not used
    std::vector<GmArgument> arguments;  ///< inputs in IR order, then outputs
    void* workspace = nullptr;          ///< start of the whole workspace, including the system part
    uint64_t workspaceBytes = 0;
    uint64_t workspaceAddress = 0;    ///< the address that the kernel uses; 0: the launch selects one
    bool isWorkspaceDefined = false;  ///< the caller has written it; else the kernel must write what it reads
    bool passWorkspace = true;
    bool passTiling = true;
    std::vector<uint8_t> tiling;
    uint64_t tilingKey = 0;
    uint32_t blockNum = 0;      ///< number of AI cores if both core types are used
    std::string taskType;       ///< "AIV_ONLY", "MIX_AIC_1_2", ...; the kernel's KERNEL_TASK_TYPE_DEFAULT wins
    std::string soc;            ///< "Ascend910B1", ...
    int64_t arch = 0;           ///< architecture that the kernel is compiled for; 0: that of the default SoC
    bool reportsBytes = false;  ///< fill LaunchReport::accessed
};

/// A finding kind that is not a kernel error: the process has too little memory, address space or threads.
inline constexpr const char* kNoResources = "resources";

struct Finding {
    std::string kind;
    int64_t block = -1;  ///< -1: whole launch
    std::string pipe;
    std::string where;  ///< file:line in the kernel sources
    std::string message;
    bool warning = false;  ///< not an error by itself
};

/// Times are estimates from the model in twin/npu_model.json, in microseconds.
struct PipeShare {
    std::string pipe;  ///< or "waiting"; or a constant of the model
    double us = 0.0;
};

/// The uses of a time span.
enum class TimeCause : uint8_t {
    kWork,       ///< a pipe issues or computes
    kBandwidth,  ///< bytes limit a pipe
    kLatency,    ///< a DMA instruction finishes later than its pipe
    kDrain,      ///< the vector unit finishes its last instruction
    kFlag,       ///< a flag or barrier
};
inline constexpr size_t kTimeCauses = 5;

/// A run of instructions or waits of one line.
struct LineStep {
    uint32_t line = 0;  ///< in LineTimes::lines
    std::string pipe;   ///< the working pipe, or the pipe that is waited for
    TimeCause cause = TimeCause::kWork;
    double us = 0.0;
};

/// The work of a line on a pipe, on all cores.
struct LineWork {
    uint32_t line = 0;
    std::string pipe;
    double us = 0.0;           ///< mean of all such cores of the SoC that have the pipe
    double bandwidthUs = 0.0;  ///< of it: bytes limit the pipe
    uint64_t instructions = 0;
    uint64_t bytes = 0;            ///< of DMA
    uint64_t firstTouchBytes = 0;  ///< of DMA
};

/// A pipe idles at a line.
struct LineWait {
    uint32_t line = 0;
    std::string pipe;
    std::array<double, kTimeCauses> us{};  ///< by cause
};

/// The slowest core of a phase.
struct PhaseLineTimes {
    std::vector<LineStep> path;
    std::vector<LineWait> waits;
    uint32_t barrier = 0;  ///< the line of the barrier that ends the phase
};

struct LineTimes {
    std::vector<std::string> lines;  ///< file:line; may be empty
    std::vector<LineWork> work;
    std::vector<PhaseLineTimes> phases;
};

struct PhaseTime {
    uint32_t core = 0;            ///< slowest core
    double coreUs = 0.0;          ///< schedule time of that core
    std::vector<PipeShare> path;  ///< critical path of that core; it adds up to `coreUs`
    double gmUs = 0.0;            ///< first accesses of sectors, at the bandwidth of global memory
    double l2Us = 0.0;            ///< repeated accesses of sectors, at the bandwidth of L2
    double syncUs = 0.0;          ///< barrier before the phase

    double Us() const { return coreUs > gmUs ? (coreUs > l2Us ? coreUs : l2Us) : (gmUs > l2Us ? gmUs : l2Us); }
};

struct PipeTime {
    std::string pipe;
    double criticalUs = 0.0;  ///< busy time on the critical core
    double meanUs = 0.0;      ///< mean busy time of all cores of the SoC that have this pipe
};

struct CoreTime {
    std::string name;
    double us = 0.0;  ///< sum of its schedules in all phases
    std::vector<PipeShare> busy;
};

struct LaunchReport {
    std::string opType;
    uint64_t tilingKey = 0;
    uint32_t blocks = 0;
    uint64_t gmBytesRead = 0;
    uint64_t gmBytesWritten = 0;
    uint64_t firstTouchBytes = 0;  ///< 128-byte sectors that DMA moved to or from GM instead of L2, in bytes
    uint64_t dmaCount = 0;
    uint64_t macs = 0;              ///< multiply-accumulate operations on cube units, without fractal padding
    bool unalignedFactors = false;  ///< whether the factors have rows that are not multiples of 32 bytes
    double balance = 0.0;           ///< time of the busiest core / mean time of all cores of its type on the SoC
    double trafficBalance = 0.0;    ///< the same ratio for DMA bytes
    double estimateUs = 0.0;        ///< includes the launch overhead
    double launchUs = 0.0;
    /// Lower bound of the problem: the longer of two times. First: all inputs and outputs once at the bandwidth of
    /// global memory. Second: its products at the peak rate of all cube cores.
    double boundUs = 0.0;
    uint32_t criticalCore = 0;
    std::vector<PhaseTime> phases;
    /// The time whose cycles depend on constants that can be assumed values, by constant.
    std::vector<PipeShare> assumed;
    std::vector<std::string> outsideRange;  ///< why no published time is comparable
    std::vector<PipeTime> pipes;
    std::vector<CoreTime> cores;         ///< all cores of the SoC of the used types; cube cores first
    std::optional<LineTimes> lineTimes;  ///< if OPFORGE_TWIN_LINES is set
    std::vector<Finding> findings;
    bool isComplete = true;               ///< every block ran to its end
    std::vector<AccessedBytes> accessed;  ///< of each argument
};

/// Levels of checks: more than the device checks; what fails on the device; what needs no shadow state.
enum class Level : uint8_t { kStrict, kDevice, kFast };

struct Options {
    bool strict = true;  ///< false: no shadow state of on-chip memories; global extents are still checked
    Level level = Level::kStrict;
    uint32_t threads = 0;          ///< blocks that run at the same time; 0: number of cores of the machine
    uint64_t seed = 0;             ///< block order and poison pattern; 0: different on each launch
    bool autoSync = true;          ///< the compiler inserts flags in level device (the check compiler_order)
    std::string unread{};          ///< inputs that a kernel may leave unread, separated by commas
    std::string overwritten{"*"};  ///< inputs that an operator without outputs overwrites; *: all of them
};

/// Runs the kernel on the CPU. Kernel errors become findings of the report; they are not exceptions.
LaunchReport Launch(const LaunchRequest& request, const Options& options);

}  // namespace opforge::twin

#endif  // OPFORGE_TWIN_LAUNCH_H
