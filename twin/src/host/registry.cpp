#include "host/registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "kernel/text.h"

namespace opforge::twin::host {

namespace {

namespace fs = std::filesystem;

#if defined(__x86_64__)
constexpr const char* kMachine = "x86_64";
#elif defined(__aarch64__)
constexpr const char* kMachine = "aarch64";
#else
#error "opp packages have folders for x86_64 and aarch64 only"
#endif

thread_local Package* loading = nullptr;

std::vector<fs::path> LibrariesOf(const fs::path& folder)
{
    std::vector<fs::path> libraries;
    std::error_code missing;
    for (const auto& entry : fs::directory_iterator(folder, missing)) {
        if (entry.path().extension() == ".so") {
            libraries.push_back(entry.path());
        }
    }
    std::sort(libraries.begin(), libraries.end());
    return libraries;
}

/// The vendor directory of the library that holds this address; "" when it is not <vendor>/op_api/lib/*.so.
std::string VendorOf(const void* address)
{
    Dl_info info{};
    if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr) {
        return {};
    }
    std::error_code unreadable;
    const fs::path folder = fs::canonical(info.dli_fname, unreadable).parent_path();
    const bool isPackage = folder.filename() == "lib" && folder.parent_path().filename() == "op_api";
    return isPackage ? folder.parent_path().parent_path().string() : std::string();
}

std::vector<std::string> CustomPaths()
{
    std::vector<std::string> paths;
    const char* const variable = std::getenv("ASCEND_CUSTOM_OPP_PATH");
    std::string rest = variable == nullptr ? "" : variable;
    while (!rest.empty()) {
        const size_t colon = rest.find(':');
        const std::string entry = rest.substr(0, colon);
        rest = colon == std::string::npos ? "" : rest.substr(colon + 1);
        std::error_code missing;
        const fs::path folder = fs::canonical(entry, missing);
        if (!entry.empty() && !missing) {
            paths.push_back(folder.string());
        }
    }
    return paths;
}

}  // namespace

Registry& Registry::Instance()
{
    static auto* registry = new Registry();
    return *registry;
}

Implementation& Registry::ImplementationOf(const std::string& opType)
{
    const std::lock_guard<std::mutex> guard(lock_);
    return (loading != nullptr ? *loading : process_).implementations[opType];
}

void Registry::AddDefinition(Definition definition)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const std::string opType = definition.opType;
    (loading != nullptr ? *loading : process_).definitions.insert_or_assign(opType, std::move(definition));
}

void Registry::AddPrototype(Definition definition)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const std::string opType = definition.opType;
    prototypes_.emplace(opType, std::move(definition));
}

Package& Registry::Load(const std::string& vendorDir)
{
    const std::lock_guard<std::mutex> oneAtATime(loadLock_);
    Package* package = nullptr;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto [place, isNew] = packages_.try_emplace(vendorDir);
        package = &place->second;
        if (!isNew) {
            return *package;
        }
        package->vendorDir = vendorDir;
    }
    const fs::path vendor = vendorDir;
    const fs::path linux = fs::path("lib") / "linux" / kMachine;
    const fs::path tbe = vendor / "op_impl" / "ai_core" / "tbe";
    const fs::path master = tbe / "op_master" / linux;
    Package* const outer = std::exchange(loading, package);
    for (const fs::path& folder :
         {vendor / "op_proto" / linux, fs::exists(master) ? master : tbe / "op_tiling" / linux}) {
        for (const fs::path& library : LibrariesOf(folder)) {
            if (dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
                package->problems.push_back(kernel::Text("cannot load ", library.string(), ": ", dlerror()));
            }
        }
    }
    loading = outer;
    return *package;
}

std::vector<Package*> Registry::SearchOrder(const void* caller)
{
    std::vector<std::string> folders = CustomPaths();
    if (const std::string own = VendorOf(caller); !own.empty()) {
        folders.push_back(own);
    }
    std::vector<Package*> order;
    for (const std::string& folder : folders) {
        order.push_back(&Load(folder));
    }
    order.push_back(&process_);
    return order;
}

std::optional<Registered> Registry::Find(const std::string& opType, const void* caller)
{
    const std::vector<Package*> order = SearchOrder(caller);
    const std::lock_guard<std::mutex> guard(lock_);
    return FindIn(order, opType);
}

std::optional<Registered> Registry::FindAnywhere(const std::string& opType)
{
    std::vector<Package*> order = SearchOrder(nullptr);
    const std::lock_guard<std::mutex> guard(lock_);
    for (auto& [folder, package] : packages_) {
        order.push_back(&package);
    }
    return FindIn(order, opType);
}

std::optional<Registered> Registry::FindIn(const std::vector<Package*>& order, const std::string& opType)
{
    for (const Package* package : order) {
        const auto implementation = package->implementations.find(opType);
        if (implementation == package->implementations.end()) {
            continue;
        }
        const auto definition = package->definitions.find(opType);
        const auto prototype = prototypes_.find(opType);
        Registered found{opType, &implementation->second, nullptr, package};
        if (definition != package->definitions.end()) {
            found.definition = &definition->second;
        } else if (prototype != prototypes_.end()) {
            found.definition = &prototype->second;
        }
        return found;
    }
    return std::nullopt;
}

}  // namespace opforge::twin::host
