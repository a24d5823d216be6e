#include "kernel/local_memory.h"

#include <cstring>

namespace opforge::twin::kernel {

LocalMemory::LocalMemory(bool shadowed, uint8_t poison)
    : shadowed_(shadowed), poison_(poison), bytes_(kPhysicalBytes, poison), written_(shadowed ? kPhysicalBytes : 0)
{
}

void LocalMemory::Poison(int64_t begin, int64_t bytes)
{
    if (shadowed_) {
        std::memset(bytes_.data() + begin, poison_, static_cast<size_t>(bytes));
        std::memset(written_.data() + begin, 0, static_cast<size_t>(bytes));
    }
}

void LocalMemory::MarkWritten(int64_t begin, int64_t bytes)
{
    if (shadowed_) {
        std::memset(written_.data() + begin, 1, static_cast<size_t>(bytes));
    }
}

int64_t LocalMemory::FirstUnwritten(int64_t begin, int64_t bytes) const
{
    if (!shadowed_) {
        return -1;
    }
    const void* found = std::memchr(written_.data() + begin, 0, static_cast<size_t>(bytes));
    return found == nullptr ? -1 : static_cast<const uint8_t*>(found) - written_.data();
}

}  // namespace opforge::twin::kernel
