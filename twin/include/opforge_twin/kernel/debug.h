// printf, assertions and dumps of tensors in kernels.
#ifndef OPFORGE_TWIN_KERNEL_DEBUG_H
#define OPFORGE_TWIN_KERNEL_DEBUG_H

#include "opforge_twin/kernel/shape_info.h"
#include "opforge_twin/kernel/system.h"
#include "opforge_twin/kernel/tensor.h"

namespace AscendC {

/// In host code with `using namespace AscendC`, calls of printf call this function. It is then the printf of C.
template <typename... Args>
OPFORGE_API int printf(const char* format, Args... args)
{
    return twin::PrintFormatted({"printf", twin::Here()}, twin::kKindsOf<Args...>, format, twin::Printable(args)...);
}
template <typename... Args>
OPFORGE_API void PRINTF(const char* format, Args... args)
{
    twin::PrintFormatted({"PRINTF", twin::Here()}, twin::kKindsOf<Args...>, format, twin::Printable(args)...);
}

// Names below the documented API that public kernels use; they have no effect without a debugger of the toolkit.
inline void InitDump(bool /*mixFlag*/, uint32_t /*gmLen*/) {}
inline void InitDump(bool /*mixFlag*/, GM_ADDR /*dumpStartAddr*/, uint32_t /*gmLen*/) {}
template <typename T>
void OOMCheckAddrRange(__gm__ T* /*gmAddr*/, const uint64_t /*gmSize*/)
{
}
/// A lock between the processes of another emulator; cores of the twin need none.
class ProcessLock {
public:
    static ProcessLock* GetProcessLock()
    {
        static thread_local ProcessLock lock;
        return &lock;
    }
    void Write() {}
    void Unlock() {}
};

[[noreturn]] OPFORGE_API inline void Trap()
{
    twin::Trap({"Trap", twin::Here()});
}

/// Prints `dumpSize` elements; `desc` is a number that the message contains.
template <typename T>
OPFORGE_API void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize)
{
    twin::DumpLocal(tensor.View(), {desc, 0, dumpSize}, {"DumpTensor", twin::Here()});
}
template <typename T>
OPFORGE_API void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize)
{
    twin::DumpGlobal(tensor.View(), {desc, 0, dumpSize}, {"DumpTensor", twin::Here()});
}
template <typename T>
OPFORGE_API void DumpTensor(const LocalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo& shapeInfo)
{
    twin::DumpLocal(tensor.View(), {desc, 0, dumpSize, shapeInfo.shape, shapeInfo.shapeDim},
                    {"DumpTensor", twin::Here()});
}
template <typename T>
OPFORGE_API void DumpTensor(const GlobalTensor<T>& tensor, uint32_t desc, uint32_t dumpSize, const ShapeInfo& shapeInfo)
{
    twin::DumpGlobal(tensor.View(), {desc, 0, dumpSize, shapeInfo.shape, shapeInfo.shapeDim},
                     {"DumpTensor", twin::Here()});
}

}  // namespace AscendC

/// Prints `dump_size` elements of global memory.
#define OPFORGE_DUMP_GLOBAL(name)                                                  \
    template <typename T>                                                          \
    OPFORGE_API void name(__gm__ T* input, uint32_t desc, uint32_t dump_size)      \
    {                                                                              \
        AscendC::GlobalTensor<T> tensor;                                           \
        tensor.SetGlobalBuffer(input, dump_size);                                  \
        opforge::twin::kernel::DumpGlobal(tensor.View(), {desc, 0, dump_size},     \
                                          {#name, opforge::twin::kernel::Here()}); \
    }
/// The same from an address of a core on. The memories are those of the positions.
#define OPFORGE_DUMP(name, ...)                                                                              \
    template <typename T>                                                                                    \
    OPFORGE_API void name(T* input, uint32_t desc, uint32_t dump_size)                                       \
    {                                                                                                        \
        using AscendC::TPosition;                                                                            \
        opforge::twin::kernel::DumpAddress(reinterpret_cast<uint64_t>(input), {__VA_ARGS__},                 \
                                           opforge::twin::kernel::DtypeOf<std::remove_cv_t<T>>(), sizeof(T), \
                                           {desc, 0, dump_size}, {#name, opforge::twin::kernel::Here()});    \
    }
OPFORGE_DUMP_GLOBAL(asc_dump_gm)
OPFORGE_DUMP(asc_dump_ubuf, TPosition::VECCALC)
OPFORGE_DUMP(asc_dump_l1buf, TPosition::A1)
OPFORGE_DUMP(asc_dump_cbuf, TPosition::CO1)
// Pointers of the twin do not have the memory of a core in their type.
OPFORGE_DUMP_GLOBAL(asc_dump)
OPFORGE_DUMP(asc_dump, TPosition::VECCALC, TPosition::A1, TPosition::CO1)
#undef OPFORGE_DUMP
#undef OPFORGE_DUMP_GLOBAL

namespace AscendC {

/// Prints `dumpSize` elements from element `countOff` on.
template <typename T>
OPFORGE_API void DumpAccChkPoint(const LocalTensor<T>& tensor, uint32_t index, uint32_t countOff, uint32_t dumpSize)
{
    twin::DumpLocal(tensor.View(), {index, countOff, dumpSize}, {"DumpAccChkPoint", twin::Here()});
}
template <typename T>
OPFORGE_API void DumpAccChkPoint(const GlobalTensor<T>& tensor, uint32_t index, uint32_t countOff, uint32_t dumpSize)
{
    twin::DumpGlobal(tensor.View(), {index, countOff, dumpSize}, {"DumpAccChkPoint", twin::Here()});
}

// Markers for the profiler of the device. Time stamps are off by default.
inline void MetricsProfStart() {}
inline void MetricsProfStop() {}
inline void PrintTimeStamp(uint32_t /*descId*/) {}
template <uint16_t id>
void MarkStamp()
{
}

}  // namespace AscendC

inline void asc_prof_start() {}
inline void asc_prof_stop() {}
inline void asc_time_stamp(uint32_t /*desc_id*/) {}
template <pipe_t pipe = PIPE_S>
void asc_mark_stamp(uint16_t /*idx*/)
{
}
template <pipe_t pipe = PIPE_S, uint16_t idx>
void asc_mark_stamp()
{
}

namespace opforge::twin::kernel {

template <typename... Args>
[[noreturn]] OPFORGE_API void FailAssertionWith(const char* condition, const char* format, Args... args)
{
    FailAssertion(Here(), condition, kKindsOf<Args...>, format, Printable(args)...);
}

}  // namespace opforge::twin::kernel

OPFORGE_API inline void __trap()
{
    const opforge::twin::kernel::ComposedCall call;
    AscendC::Trap();
}

#define OPFORGE_ASSERT(condition, ...)                   \
    (static_cast<bool>(condition) ? static_cast<void>(0) \
                                  : opforge::twin::kernel::FailAssertionWith(#condition, "" __VA_ARGS__))
#define ascendc_assert(...) OPFORGE_ASSERT(__VA_ARGS__)
#ifndef ASSERT
#define ASSERT(...) OPFORGE_ASSERT(__VA_ARGS__)
#endif
// The assert of <cassert> would end the process.
#undef assert
#define assert(...) OPFORGE_ASSERT(__VA_ARGS__)
// The second argument is the reaction of a debug build on the host.
#define ASCENDC_ASSERT(condition, reaction) OPFORGE_ASSERT(condition)
#define KERNEL_LOG(level, ...) static_cast<void>(0)
#define KERNEL_LOG_KERNEL(level, ...) static_cast<void>(0)
#define TRACE_START(id) static_cast<void>(0)
#define TRACE_STOP(id) static_cast<void>(0)

#endif  // OPFORGE_TWIN_KERNEL_DEBUG_H
