// The tiling structs of high-level functions, in the namespace of CANN.
#ifndef OPFORGE_TWIN_HIGH_TILING_STRUCTS_H
#define OPFORGE_TWIN_HIGH_TILING_STRUCTS_H

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

#endif  // OPFORGE_TWIN_HIGH_TILING_STRUCTS_H
