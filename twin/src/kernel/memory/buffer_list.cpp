#include "kernel/memory/buffer_list.h"

#include <fstream>

#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

namespace {

const char* Name(AscendC::TPosition position)
{
    constexpr const char* names[] = {"GM", "A1",  "A2",  "B1",    "B2",     "C1",
                                     "C2", "CO1", "CO2", "VECIN", "VECOUT", "VECCALC"};
    const auto index = static_cast<size_t>(position);
    return index < std::size(names) ? names[index] : "buffer";
}

/// The first argument of the call of InitBuffer at this place; empty if the source cannot be read.
std::string ArgumentAt(const Location& at)
{
    const SourceLine place = LineOf(at);
    std::ifstream source(place.file);
    std::string line;
    for (int number = 0; number < place.line; ++number) {
        if (!std::getline(source, line)) {
            return {};
        }
    }
    const std::string call = "InitBuffer(";
    const size_t begin = line.find(call);
    const size_t end = begin == std::string::npos ? begin : line.find(',', begin);
    return end == std::string::npos ? std::string() : line.substr(begin + call.size(), end - begin - call.size());
}

}  // namespace

std::vector<BufferRequest> RequestsOf(const LocalMemory& local, const LocalUnit& unit)
{
    std::vector<BufferRequest> requests;
    const Buffer* last = nullptr;
    for (const Buffer& buffer : local.buffers) {
        if (buffer.isFixed || &local.UnitOf(buffer.begin) != &unit) {
            continue;
        }
        if (last != nullptr && buffer.queue != LocalView::kNoBuffer && buffer.queue == last->queue) {
            ++requests.back().count;
        } else {
            requests.push_back({buffer.position, 1, buffer.end - buffer.begin, buffer.createdAt});
        }
        last = &buffer;
    }
    return requests;
}

std::string Describe(const std::vector<BufferRequest>& requests)
{
    std::string text;
    for (const BufferRequest& request : requests) {
        const std::string name = ArgumentAt(request.at);
        const std::string where = Where(request.at);
        text +=
            Text(text.empty() ? "" : ", ", name, name.empty() ? "" : " ", Name(request.position), " ", request.count,
                 " x ", request.bytes, " bytes", where.empty() ? std::string() : Text(" (", where, ")"));
    }
    return text;
}

}  // namespace opforge::twin::kernel
