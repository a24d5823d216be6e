#include "host/gert/registry.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

#include "kernel/exec/text.h"

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

/// Returns the vendor directory of the library that contains this address; "" if it is not <vendor>/op_api/lib/*.so.
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

std::string Environment(const char* name)
{
    const char* const value = std::getenv(name);
    return value == nullptr ? "" : value;
}

/// Returns the entries of a list that are directories, in order.
std::vector<std::string> FoldersOf(std::string list, char separator, const fs::path& parent)
{
    std::vector<std::string> folders;
    while (!list.empty()) {
        const size_t end = list.find(separator);
        const std::string entry = list.substr(0, end);
        list = end == std::string::npos ? "" : list.substr(end + 1);
        std::error_code missing;
        const fs::path folder = fs::canonical(parent / entry, missing);
        if (!entry.empty() && !missing) {
            folders.push_back(folder.string());
        }
    }
    return folders;
}

/// Reads the vendors of an installed toolkit from `load_priority=a,b` in the first line of vendors/config.ini.
std::vector<std::string> ConfiguredVendors()
{
    const std::string opp = Environment("ASCEND_OPP_PATH");
    const fs::path vendors = fs::path(opp) / "vendors";
    std::ifstream config(vendors / "config.ini");
    std::string line;
    if (opp.empty() || !std::getline(config, line)) {
        return {};
    }
    line.erase(std::remove_if(line.begin(), line.end(), [](unsigned char letter) { return std::isspace(letter) != 0; }),
               line.end());
    const std::string key = "load_priority=";
    return line.rfind(key, 0) == 0 ? FoldersOf(line.substr(key.size()), ',', vendors) : std::vector<std::string>();
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
    std::vector<std::string> folders = FoldersOf(Environment("ASCEND_CUSTOM_OPP_PATH"), ':', {});
    const std::vector<std::string> configured = ConfiguredVendors();
    folders.insert(folders.end(), configured.begin(), configured.end());
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
