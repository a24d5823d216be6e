#include "kernel/exec/argument_use.h"

#include "kernel/exec/levels.h"

#include <algorithm>
#include <functional>

namespace opforge::twin::kernel {

namespace {

/// "y[1, 0, 3]", the element at a byte of a tensor.
std::string ElementAt(const GmArgument& argument, uint64_t byte)
{
    uint64_t left = byte / static_cast<uint64_t>(argument.elementBytes);
    std::string indices;
    for (auto dim = argument.shape.rbegin(); dim != argument.shape.rend(); ++dim) {
        const auto size = static_cast<uint64_t>(*dim);
        indices = Text(left % size, indices.empty() ? "" : ", ", indices);
        left /= size;
    }
    return Text(argument.name, "[", indices, "]");
}

/// Whether a list of names, separated by commas, has a name.
bool IsListed(const std::string& names, const std::string& name)
{
    return ("," + names + ",").find("," + name + ",") != std::string::npos;
}

std::string DescribeUnwritten(const GmArgument& argument, const WrittenBytes& written, uint32_t writers, uint32_t cores)
{
    const WrittenBytes::Run first = written.NextUnwritten(0, argument.bytes);
    uint64_t count = 0;
    for (WrittenBytes::Run run = first; run.begin != run.end; run = written.NextUnwritten(run.end, argument.bytes)) {
        count += run.end - run.begin;
    }
    if (count == 0) {
        return {};
    }
    return Text("output '", argument.name, "': no core has written ", count, " of ", argument.bytes,
                " bytes, the first of them in [", first.begin, ", ", first.end, ")",
                argument.elementBytes == 0 ? std::string() : Text(" from ", ElementAt(argument, first.begin), " on"),
                "; ", writers, " of ", cores,
                " cores wrote to it; expected all bytes; write the last tile of each core too, or clear the output "
                "with InitOutput");
}

}  // namespace

void ArgumentUse::Add(const AccessedArguments& core)
{
    const auto add = [](const std::vector<uint8_t>& accessed, std::vector<uint32_t>& cores) {
        cores.resize(accessed.size());
        std::transform(accessed.begin(), accessed.end(), cores.begin(), cores.begin(), std::plus<uint32_t>());
    };
    add(core.read, readers_);
    add(core.written, writers_);
}

std::vector<Finding> ArgumentUse::Check(const LaunchState& launch) const
{
    std::vector<Finding> findings;
    if (launch.request.body) {
        return findings;  // the direction of each allocation is not known
    }
    const std::string place = Text(launch.request.opType, " (tiling key ", launch.request.tilingKey, "): ");
    const std::vector<GmArgument>& arguments = launch.request.arguments;
    for (size_t index = 0; index < arguments.size(); ++index) {
        const WrittenBytes* written = launch.memory.Regions()[index].written.get();
        const GmArgument& argument = arguments[index];
        if (written == nullptr || !argument.isOutput || argument.isInput || argument.hasPadding) {
            continue;
        }
        const std::string problem =
            DescribeUnwritten(arguments[index], *written, writers_[index], launch.layout.Count());
        if (!problem.empty()) {
            findings.push_back({"output_not_written", -1, "", "", place + problem});
        }
    }
    // With an empty tensor, the computation may not need the other tensors. An absent tensor has no shape.
    const bool isEmpty = std::any_of(arguments.begin(), arguments.end(), [](const GmArgument& argument) {
        return argument.bytes == 0 && (argument.data != nullptr || !argument.shape.empty());
    });
    for (size_t index = 0; index < arguments.size() && !isEmpty && kInputNotRead.Has(launch.options.level); ++index) {
        const GmArgument& argument = arguments[index];
        const bool mayBeUnread = readers_[index] != 0 || IsListed(launch.options.unread, argument.name);
        if (!mayBeUnread && argument.isInput && !argument.isOutput && !argument.isHostList &&
            argument.data != nullptr) {
            findings.push_back({"input_not_read", -1, "", "",
                                Text(place, "input '", argument.name, "': the call gives it (", argument.bytes,
                                     " bytes), but no core reads it; expected at least one access; read it, use the "
                                     "tiling key for calls with this input, or remove it from the operator"),
                                true});
        }
    }
    return findings;
}

}  // namespace opforge::twin::kernel
