// The written bytes of an argument with unknown contents: one bit per byte.
#ifndef OPFORGE_TWIN_KERNEL_MEMORY_WRITTEN_BYTES_H
#define OPFORGE_TWIN_KERNEL_MEMORY_WRITTEN_BYTES_H

#include <atomic>
#include <cstdint>

namespace opforge::twin::kernel {

/// Safe to use from several blocks at once.
class WrittenBytes {
public:
    struct Run {
        uint64_t begin;
        uint64_t end;
    };

    explicit WrittenBytes(uint64_t bytes);
    ~WrittenBytes();
    WrittenBytes(const WrittenBytes&) = delete;
    WrittenBytes& operator=(const WrittenBytes&) = delete;

    void Mark(uint64_t begin, uint64_t end);
    void Unmark(uint64_t begin, uint64_t end);
    /// The first range in [begin, end) that is not written; empty if there is none.
    Run NextUnwritten(uint64_t begin, uint64_t end) const;

private:
    uint64_t mapped_;
    std::atomic<uint64_t>* words_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MEMORY_WRITTEN_BYTES_H
