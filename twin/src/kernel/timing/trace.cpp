#include "kernel/timing/trace.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "kernel/exec/block.h"
#include "kernel/exec/report_json.h"

namespace opforge::twin::kernel {

namespace {

/// Whether a file may be written to this path: a rename would also replace a device, a pipe or a link.
bool IsFreeOrRegular(const std::string& path)
{
    struct stat status{};
    return lstat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode);
}

/// Creates a new file; an existing one is not opened.
bool IsMade(const std::string& path)
{
    const int made = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    return made >= 0 && close(made) == 0;
}

std::string PartialOf(const std::string& path)
{
    return Text(path, ".", getpid(), ".partial");
}

}  // namespace

bool IsWritableFile(const std::string& path)
{
    const std::string partial = PartialOf(path);
    return IsFreeOrRegular(path) && IsMade(partial) && unlink(partial.c_str()) == 0;
}

void Trace::Add(size_t core, const std::vector<Span>& spans, const std::vector<double>& offsets)
{
    for (Span span : spans) {
        const double offset = span.phase < offsets.size() ? offsets[span.phase] : 0.0;
        span.begin += offset;
        span.end += offset;
        entries_.push_back({core, span});
    }
}

bool Trace::Write(const std::string& path, const Estimate& estimate, int64_t mhz) const
{
    const auto cyclesPerMicro = static_cast<double>(mhz);
    const std::vector<double> starts = estimate.PhaseStarts();
    const std::string partial = PartialOf(path);
    if (!IsFreeOrRegular(path) || !IsMade(partial)) {
        return false;
    }
    std::ofstream file(partial);
    file.precision(12);
    file << "{\"displayTimeUnit\": \"ns\", \"otherData\": {\"note\": \"estimates of the twin's time model\"}, "
            "\"traceEvents\": [";
    const char* separator = "\n";
    std::set<std::pair<size_t, Pipe>> tracks;
    for (const Entry& entry : entries_) {
        const Span& span = entry.span;
        const double stretch = estimate.Stretch(entry.core, span.phase);
        if (tracks.emplace(entry.core, span.pipe).second) {
            const auto name = [&](const char* what, const std::string& value) {
                file << separator << "{\"ph\": \"M\", \"name\": \"" << what << "\", \"pid\": " << entry.core
                     << ", \"tid\": " << static_cast<int>(span.pipe) << ", \"args\": {\"name\": " << Quoted(value)
                     << "}}";
                separator = ",\n";
            };
            name("process_name", estimate.NameOf(entry.core));
            name("thread_name", Name(span.pipe));
        }
        file << separator << "{\"ph\": \"X\", \"pid\": " << entry.core << ", \"tid\": " << static_cast<int>(span.pipe)
             << ", \"name\": " << Quoted(span.name)
             << ", \"ts\": " << (starts[span.phase] + span.begin * stretch) / cyclesPerMicro
             << ", \"dur\": " << (span.end - span.begin) * stretch / cyclesPerMicro
             << ", \"args\": {\"at\": " << Quoted(Where(span.at)) << ", \"phase\": " << span.phase << "}}";
    }
    file << "\n]}\n";
    file.close();
    const bool isWritten = file && std::rename(partial.c_str(), path.c_str()) == 0;
    if (!isWritten) {
        unlink(partial.c_str());
    }
    return isWritten;
}

}  // namespace opforge::twin::kernel
