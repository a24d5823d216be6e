#include "kernel/report_json.h"

#include <cstdio>

#include "kernel/text.h"

namespace opforge::twin {

namespace {

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

}  // namespace

std::string ToJson(const LaunchReport& report)
{
    std::string findings;
    for (const Finding& finding : report.findings) {
        findings +=
            kernel::Text(findings.empty() ? "" : ", ", "{\"kind\": ", Quoted(finding.kind),
                         ", \"block\": ", finding.block, ", \"pipe\": ", Quoted(finding.pipe),
                         ", \"where\": ", Quoted(finding.where), ", \"message\": ", Quoted(finding.message), "}");
    }
    return kernel::Text("{\"op_type\": ", Quoted(report.opType), ", \"tiling_key\": ", report.tilingKey,
                        ", \"blocks\": ", report.blocks, ", \"gm_bytes_read\": ", report.gmBytesRead,
                        ", \"gm_bytes_written\": ", report.gmBytesWritten,
                        ", \"first_touch_bytes\": ", report.firstTouchBytes, ", \"dma_count\": ", report.dmaCount,
                        ", \"balance\": ", report.balance, ", \"findings\": [", findings, "]}");
}

}  // namespace opforge::twin
