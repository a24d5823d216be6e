// One access of one instruction to memory: the common form of all accesses.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_H
#define OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_H

#include <cstdint>
#include <string>

#include "opforge_twin/launch.h"
#include "kernel/exec/source_lines.h"

namespace opforge::twin::kernel {

enum class Pipe : uint8_t { kScalar, kVector, kCube, kMte1, kMte2, kMte3, kFix, kAll };
enum class Memory : uint8_t { kGlobal, kOnChip };
using AccessKind = ByteUse;

const char* Name(Pipe pipe);

/// A set of pipes.
struct PipeSet {
    uint32_t bits = 0;

    template <typename... Pipes>
    static constexpr PipeSet Of(Pipes... pipes)
    {
        return {((1U << static_cast<uint32_t>(pipes)) | ...)};
    }
    constexpr bool Has(Pipe pipe) const { return (bits >> static_cast<uint32_t>(pipe) & 1U) != 0; }
};

/// "MTE2 or FIX".
std::string Names(PipeSet pipes);

struct Access {
    Pipe pipe;
    Memory memory;
    AccessKind kind;
    int64_t begin;  ///< address on the core, or address in the launch's global memory
    int64_t bytes;
    const char* operand;
    const Call& call;
    bool isFlag = false;  ///< of the scalar unit, in a way that orders cores
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_ACCESS_H
