#include "kernel/exec/report_json.h"

#include <cstdio>

#include "kernel/exec/text.h"
#include "kernel/timing/calibrated.h"

namespace opforge::twin {

std::string Quoted(const std::string& text)
{
    std::string quoted = "\"";
    for (const char letter : text) {
        const auto code = static_cast<unsigned char>(letter);
        if (letter == '"' || letter == '\\') {
            quoted += '\\';
            quoted += letter;
        } else if (code < 0x20) {
            char escaped[8];
            std::snprintf(escaped, sizeof(escaped), "\\u%04x", code);
            quoted += escaped;
        } else {
            quoted += letter;
        }
    }
    return quoted + "\"";
}

std::string ErrorJson(const std::string& problem)
{
    return kernel::Text("{\"error\": ", Quoted(problem), "}");
}

namespace {

std::string SharesOf(const std::vector<PipeShare>& shares)
{
    std::string text;
    for (const PipeShare& share : shares) {
        text += kernel::Text(text.empty() ? "" : ", ", Quoted(share.pipe), ": ", share.us);
    }
    return "{" + text + "}";
}

template <typename Items, typename Write>
std::string Listed(const Items& items, const Write& write)
{
    std::string text;
    for (const auto& item : items) {
        text += kernel::Text(text.empty() ? "" : ", ", write(item));
    }
    return "[" + text + "]";
}

/// Lists instead of objects: a path can have very many steps.
std::string LinesOf(const LineTimes& times)
{
    const std::string work = Listed(times.work, [](const LineWork& line) {
        return kernel::Text("[", line.line, ", ", Quoted(line.pipe), ", ", line.us, ", ", line.bandwidthUs, ", ",
                            line.instructions, ", ", line.bytes, ", ", line.firstTouchBytes, "]");
    });
    const std::string phases = Listed(times.phases, [](const PhaseLineTimes& phase) {
        const std::string path = Listed(phase.path, [](const LineStep& step) {
            return kernel::Text("[", step.line, ", ", Quoted(step.pipe), ", ", static_cast<int>(step.cause), ", ",
                                step.us, "]");
        });
        const std::string waits = Listed(phase.waits, [](const LineWait& wait) {
            const std::string us = Listed(wait.us, [](double time) { return kernel::Text(time); });
            return kernel::Text("[", wait.line, ", ", Quoted(wait.pipe), ", ", us, "]");
        });
        return kernel::Text("{\"path\": ", path, ", \"waits\": ", waits, ", \"barrier\": ", phase.barrier, "}");
    });
    return kernel::Text(", \"line_times\": {\"lines\": ", Listed(times.lines, Quoted), ", \"work\": ", work,
                        ", \"phases\": ", phases, "}");
}

/// Microseconds, by the time model.
std::string TimesOf(const LaunchReport& report)
{
    std::string phases;
    for (const PhaseTime& phase : report.phases) {
        phases += kernel::Text(phases.empty() ? "" : ", ", "{\"core\": ", phase.core, ", \"core_us\": ", phase.coreUs,
                               ", \"gm_us\": ", phase.gmUs, ", \"l2_us\": ", phase.l2Us,
                               ", \"sync_us\": ", phase.syncUs, ", \"path\": ", SharesOf(phase.path), "}");
    }
    std::string pipes;
    for (const PipeTime& pipe : report.pipes) {
        pipes += kernel::Text(pipes.empty() ? "" : ", ", Quoted(pipe.pipe), ": {\"critical_us\": ", pipe.criticalUs,
                              ", \"mean_us\": ", pipe.meanUs, "}");
    }
    std::string cores;
    for (const CoreTime& core : report.cores) {
        cores += kernel::Text(cores.empty() ? "" : ", ", "{\"name\": ", Quoted(core.name), ", \"us\": ", core.us,
                              ", \"busy\": ", SharesOf(core.busy), "}");
    }
    return kernel::Text(", \"estimate_us\": ", report.estimateUs, ", \"error_range\": [", kErrorRange[0], ", ",
                        kErrorRange[1], "], \"launch_us\": ", report.launchUs, ", \"bound_us\": ", report.boundUs,
                        ", \"critical_core\": ", report.criticalCore, ", \"phases\": [", phases, "], \"pipes\": {",
                        pipes, "}, \"cores\": [", cores, "], \"assumed_us\": ", SharesOf(report.assumed),
                        ", \"outside_range\": ", Listed(report.outsideRange, Quoted));
}

}  // namespace

std::string ToJson(const LaunchReport& report)
{
    std::string findings;
    for (const Finding& finding : report.findings) {
        findings += kernel::Text(findings.empty() ? "" : ", ", "{\"kind\": ", Quoted(finding.kind),
                                 ", \"block\": ", finding.block, ", \"pipe\": ", Quoted(finding.pipe),
                                 ", \"where\": ", Quoted(finding.where), ", \"message\": ", Quoted(finding.message),
                                 ", \"warning\": ", finding.warning ? "true" : "false", "}");
    }
    return kernel::Text("{\"op_type\": ", Quoted(report.opType), ", \"tiling_key\": ", report.tilingKey,
                        ", \"blocks\": ", report.blocks, ", \"gm_bytes_read\": ", report.gmBytesRead,
                        ", \"gm_bytes_written\": ", report.gmBytesWritten,
                        ", \"first_touch_bytes\": ", report.firstTouchBytes, ", \"dma_count\": ", report.dmaCount,
                        ", \"macs\": ", report.macs,
                        ", \"unaligned_factors\": ", report.unalignedFactors ? "true" : "false",
                        ", \"balance\": ", report.balance, ", \"traffic_balance\": ", report.trafficBalance,
                        TimesOf(report), report.lineTimes ? LinesOf(*report.lineTimes) : "",
                        ", \"complete\": ", report.isComplete ? "true" : "false", ", \"findings\": [", findings, "]}");
}

}  // namespace opforge::twin
