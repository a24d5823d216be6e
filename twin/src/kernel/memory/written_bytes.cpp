#include "kernel/memory/written_bytes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

constexpr uint64_t kWordBits = 64;
constexpr uint64_t kAll = ~uint64_t{0};

/// Bits of [begin, end) in the word at `begin`.
uint64_t BitsOf(uint64_t begin, uint64_t end)
{
    const uint64_t first = begin % kWordBits;
    const uint64_t count = std::min(kWordBits - first, end - begin);
    return kAll >> (kWordBits - count) << first;
}

uint64_t WordEnd(uint64_t bit)
{
    return RoundDown(bit, kWordBits) + kWordBits;
}

}  // namespace

WrittenBytes::WrittenBytes(uint64_t bytes) : mapped_((bytes / kWordBits + 1) * sizeof(uint64_t))
{
    void* memory = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        throw std::system_error(errno, std::generic_category(), "memory for the written bytes of an argument");
    }
    words_ = static_cast<std::atomic<uint64_t>*>(memory);
}

WrittenBytes::~WrittenBytes()
{
    munmap(words_, mapped_);
}

void WrittenBytes::Mark(uint64_t begin, uint64_t end)
{
    for (; begin < end; begin = WordEnd(begin)) {
        std::atomic<uint64_t>& word = words_[begin / kWordBits];
        const uint64_t bits = BitsOf(begin, end);
        if (bits == kAll) {
            word.store(kAll, std::memory_order_relaxed);
        } else if ((word.load(std::memory_order_relaxed) & bits) != bits) {
            word.fetch_or(bits, std::memory_order_relaxed);
        }
    }
}

void WrittenBytes::Unmark(uint64_t begin, uint64_t end)
{
    for (; begin < end; begin = WordEnd(begin)) {
        words_[begin / kWordBits].fetch_and(~BitsOf(begin, end), std::memory_order_relaxed);
    }
}

WrittenBytes::Run WrittenBytes::NextUnwritten(uint64_t begin, uint64_t end) const
{
    const auto missing = [&](uint64_t from) {
        return ~words_[from / kWordBits].load(std::memory_order_relaxed) & BitsOf(from, end);
    };
    for (; begin < end; begin = WordEnd(begin)) {
        if (const uint64_t bits = missing(begin); bits != 0) {
            begin = RoundDown(begin, kWordBits) + static_cast<uint64_t>(__builtin_ctzll(bits));
            break;
        }
    }
    if (begin >= end) {
        return {end, end};
    }
    uint64_t last = begin;
    while (last < end) {
        const uint64_t wanted = BitsOf(last, end);
        const uint64_t written = wanted & ~missing(last);
        if (written != 0) {
            last = RoundDown(last, kWordBits) + static_cast<uint64_t>(__builtin_ctzll(written));
            break;
        }
        last = std::min(WordEnd(last), end);
    }
    return {begin, last};
}

}  // namespace opforge::twin::kernel
