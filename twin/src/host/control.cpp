// Options, reports, packages.
#include "opforge_twin/control.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <string>

#include "host/acl/errors.h"
#include "host/gert/platform.h"
#include "host/gert/registry.h"
#include "host/aclnn/reports.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::kernel::Text;

namespace {

constexpr int kBadInput = 2;
std::mutex lock;

int Refuse(const std::string& text)
{
    Fail(kBadInput, text);
    return kBadInput;
}

bool ReadNumber(const char* text, uint64_t& number)
{
    char* end = nullptr;
    number = std::strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0';
}

bool SetLevel(const std::string& name)
{
    using opforge::twin::Level;
    constexpr const char* names[] = {"strict", "device", "fast"};
    const auto found = std::find(std::begin(names), std::end(names), name);
    if (found == std::end(names)) {
        return false;
    }
    const std::lock_guard<std::mutex> guard(lock);
    opforge::twin::Options options = opforge::twin::ProcessOptions();
    options.level = static_cast<Level>(found - std::begin(names));
    options.strict = options.level != Level::kFast;
    opforge::twin::SetProcessOptions(options);
    return true;
}

}  // namespace

int opforgeTwinSetOption(const char* name, const char* value)
{
    if (name == nullptr || value == nullptr) {
        return Refuse("option: name or value is null");
    }
    const std::string option = name;
    std::string problem;
    if (option == "soc") {
        return SetSoc(value, problem) ? 0 : Refuse(problem);
    }
    if (option == "level") {
        return SetLevel(value) ? 0 : Refuse(Text("option level: got '", value, "', expected strict, device or fast"));
    }
    const bool isNames = option == "unread" || option == "overwritten";
    if (option != "strict" && option != "threads" && option != "seed" && !isNames) {
        return Refuse(
            Text("option: got '", option, "', expected soc, level, strict, threads, seed, unread or overwritten"));
    }
    uint64_t number = 0;
    const uint64_t highest = option == "strict" ? 1 : option == "threads" ? UINT32_MAX : UINT64_MAX;
    if (!isNames && (!ReadNumber(value, number) || number > highest)) {
        return Refuse(Text("option ", option, ": got '", value, "', expected 0 to ", highest));
    }
    const std::lock_guard<std::mutex> guard(lock);
    opforge::twin::Options options = opforge::twin::ProcessOptions();
    if (isNames) {
        (option == "unread" ? options.unread : options.overwritten) = value;
    } else if (option == "strict") {
        options.strict = number != 0;
        options.level = options.strict ? opforge::twin::Level::kStrict : opforge::twin::Level::kFast;
    } else if (option == "threads") {
        options.threads = static_cast<uint32_t>(number);
    } else {
        options.seed = number;
    }
    opforge::twin::SetProcessOptions(options);
    return 0;
}

const char* opforgeTwinTakeReports()
{
    thread_local std::string reports;
    reports = TakeReports();
    return reports.c_str();
}

int opforgeTwinLoadPackage(const char* vendorDir)
{
    namespace fs = std::filesystem;
    std::error_code missing;
    const fs::path folder = fs::canonical(vendorDir == nullptr ? "" : vendorDir, missing);
    if (missing) {
        return Refuse(Text("package: got '", vendorDir == nullptr ? "" : vendorDir, "', expected a vendor directory"));
    }
    const Package& package = Registry::Instance().Load(folder.string());
    std::string problems;
    for (const std::string& problem : package.problems) {
        problems += (problems.empty() ? "" : "\n") + problem;
    }
    const fs::path plugins = folder / "framework" / "onnx" / "libcust_onnx_parsers.so";
    if (fs::exists(plugins) && dlopen(plugins.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
        problems += Text(problems.empty() ? "" : "\n", "cannot load ", plugins.string(), ": ", dlerror());
    }
    return problems.empty() ? 0 : Refuse(problems);
}
