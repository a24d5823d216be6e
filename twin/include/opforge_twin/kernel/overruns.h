// Handlers that the host compiler calls if a kernel indexes outside an array or overwrites its stack frame
// (KERNEL_FLAGS in compiler.py). They are weak and hidden: each kernel library uses its own handlers, not those that
// end the process.
#ifndef OPFORGE_TWIN_KERNEL_OVERRUNS_H
#define OPFORGE_TWIN_KERNEL_OVERRUNS_H

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// The compiler's description of an index; the layout is defined by its sanitizer runtime.
struct TypeDescription {
    uint16_t kind;
    uint16_t info;
    char name[1];  ///< continues after the structure
};
struct IndexedArray {
    const char* file;
    uint32_t line;
    uint32_t column;
    const TypeDescription* array;
    const TypeDescription* index;
};

}  // namespace opforge::twin::kernel

extern "C" {

__attribute__((weak, visibility("hidden"))) void __ubsan_handle_out_of_bounds(
    opforge::twin::kernel::IndexedArray* access, uintptr_t index)
{
    opforge::twin::kernel::LeaveArray({__builtin_return_address(0)}, access->array->name, static_cast<int64_t>(index));
}

[[noreturn]] __attribute__((weak, visibility("hidden"))) void __stack_chk_fail()
{
    opforge::twin::kernel::LoseFrame();
}

}  // extern "C"

#endif  // OPFORGE_TWIN_KERNEL_OVERRUNS_H
