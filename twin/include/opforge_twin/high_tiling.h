// The tiling structs of high-level functions in kernels. kernel_tiling/kernel_tiling.h includes this header.
#ifndef OPFORGE_TWIN_HIGH_TILING_H
#define OPFORGE_TWIN_HIGH_TILING_H

#include <cstdint>

namespace AscendC::tiling {

#define FIELD(type, name) type name = 0;
#define OPFORGE_TILING_STRUCT(name, ...) \
    struct name {                        \
        __VA_ARGS__                      \
    };
#include "opforge_twin/high_tiling.inc"
#undef OPFORGE_TILING_STRUCT
#undef FIELD

}  // namespace AscendC::tiling

#define OPFORGE_TILING_STRUCT(name, ...) using AscendC::tiling::name;
namespace AscendC {
#include "opforge_twin/high_tiling.inc"
}
#include "opforge_twin/high_tiling.inc"
#undef OPFORGE_TILING_STRUCT

#endif  // OPFORGE_TWIN_HIGH_TILING_H
