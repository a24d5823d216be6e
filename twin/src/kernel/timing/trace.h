// Writes the schedules of all cores as a trace for chrome://tracing and Perfetto: a process for each core, a track for
// each pipe.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TRACE_H
#define OPFORGE_TWIN_KERNEL_TIMING_TRACE_H

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/timing/estimate.h"

namespace opforge::twin::kernel {

/// Whether the twin can write a trace or a report to this path: it has no file, or a regular file.
bool IsWritableFile(const std::string& path);

class Trace {
public:
    /// Adds the spans of a block on `core`; `offsets`: cycles of earlier blocks on the core, by phase.
    void Add(size_t core, const std::vector<Span>& spans, const std::vector<double>& offsets);
    /// Writes the file; false on failure.
    bool Write(const std::string& path, const Estimate& estimate, int64_t mhz) const;

private:
    struct Entry {
        size_t core;
        Span span;
    };
    std::vector<Entry> entries_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_TIMING_TRACE_H
