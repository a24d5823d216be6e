#include "kernel/exec/source_lines.h"

#include <link.h>

#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "kernel/exec/line_table.h"
#include "kernel/exec/text.h"

namespace opforge::twin::kernel {

namespace {

/// The call of the outermost composite API function; null outside of one.
thread_local const void* composedCall = nullptr;

/// The loaded library or program that contains an address.
struct Module {
    uintptr_t address;  ///< that is looked up
    std::string path;
    uintptr_t base = 0;
};

int FindModule(dl_phdr_info* info, size_t /*bytes*/, void* data)
{
    auto& wanted = *static_cast<Module*>(data);
    for (int index = 0; index < info->dlpi_phnum; ++index) {
        const ElfW(Phdr) & segment = info->dlpi_phdr[index];
        const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
        if (segment.p_type == PT_LOAD && wanted.address >= begin && wanted.address - begin < segment.p_memsz) {
            wanted.path = info->dlpi_name[0] == '\0' ? "/proc/self/exe" : info->dlpi_name;
            wanted.base = info->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

std::string ContentOf(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    return content.str();
}

}  // namespace

SourceLine LineOf(const Location& at)
{
    static std::mutex mutex;
    // Never destroyed: launches of a stream can still run when the process destroys its objects.
    static auto& tables = *new std::map<std::pair<std::string, uintptr_t>, LineTable>;
    if (at.address == nullptr) {
        return {};
    }
    // The call is the instruction before the address at which it returns.
    Module module{reinterpret_cast<uintptr_t>(at.address) - 1, {}, 0};
    if (dl_iterate_phdr(FindModule, &module) == 0) {
        return {};
    }
    const std::lock_guard<std::mutex> lock(mutex);
    const auto [entry, isNew] = tables.try_emplace({module.path, module.base});
    if (isNew) {
        entry->second = LineTable(ContentOf(module.path));
    }
    const LineTable::Row* row = entry->second.Find(module.address - module.base);
    return row == nullptr ? SourceLine{} : SourceLine{entry->second.File(*row), static_cast<int>(row->line)};
}

const void* OutermostCall(const void* address)
{
    return composedCall == nullptr ? address : composedCall;
}

bool BeginComposedCall(const void* address)
{
    const bool isOutermost = composedCall == nullptr;
    composedCall = OutermostCall(address);
    return isOutermost;
}

void EndComposedCall()
{
    composedCall = nullptr;
}

std::string Where(const Location& at)
{
    const SourceLine found = LineOf(at);
    return found.line == 0 ? std::string() : Text(found.file, ":", found.line);
}

}  // namespace opforge::twin::kernel
