// The API of the cube unit for cores that have both units: the twin emulates only the vector unit of such cores.
#ifndef OPFORGE_TWIN_KERNEL_ABSENT_H
#define OPFORGE_TWIN_KERNEL_ABSENT_H

#include "opforge_twin/kernel/gates.h"

namespace AscendC {

// One row for each function; template arguments of calls may be types.
#define OPFORGE_ABSENT(function, reason)                                     \
    template <typename... E, typename First, typename... A>                  \
    void function(First&&, A&&...)                                           \
    {                                                                        \
        static_assert(sizeof(First) == 0, #function ": Ascend 910 " reason); \
    }
OPFORGE_ABSENT(Mmad, "has it, but the twin does not emulate its cube unit")
OPFORGE_ABSENT(LoadData, "has it, but the twin does not emulate its cube unit")
OPFORGE_ABSENT(LoadDataWithTranspose, "has no such function; use LoadData with ifTranspose")
OPFORGE_ABSENT(InitConstValue, "has it, but the twin does not emulate its cube unit")
OPFORGE_ABSENT(Fixpipe, "has no such function; copy L0C to the unified buffer with DataCopy")
#undef OPFORGE_ABSENT

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_ABSENT_H
