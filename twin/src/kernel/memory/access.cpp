#include "kernel/memory/access.h"

#include "kernel/exec/text.h"
#include "kernel/order/order.h"

namespace opforge::twin::kernel {

const char* Name(Pipe pipe)
{
    constexpr const char* names[] = {"S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL"};
    return names[static_cast<size_t>(pipe)];
}

std::string Names(PipeSet pipes)
{
    std::string names;
    for (size_t pipe = 0; pipe < kPipes; ++pipe) {
        if (pipes.Has(static_cast<Pipe>(pipe))) {
            names += Text(names.empty() ? "" : " or ", Name(static_cast<Pipe>(pipe)));
        }
    }
    return names;
}

}  // namespace opforge::twin::kernel
