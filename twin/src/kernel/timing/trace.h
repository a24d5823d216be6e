// The schedules of all cores as a trace for chrome://tracing and Perfetto: a process for each core, a track for each
// pipe.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TRACE_H
#define OPFORGE_TWIN_KERNEL_TIMING_TRACE_H

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "kernel/timing/estimate.h"

namespace opforge::twin::kernel {

class Trace {
public:
    /// Spans of a block on `core`; `offsets`: cycles that the core has spent on earlier blocks, by phase.
    void Add(size_t core, const std::vector<Span>& spans, const std::vector<double>& offsets);
    /// Writes the file, false when it cannot.
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
