// Compilation of kernels at run time: `opforge cc` in PATH makes a shared library.
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "acl/acl_rt_compile.h"
#include "host/acl/errors.h"
#include "host/acl/handle_table.h"
#include "host/gert/platform.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"
#include "opforge_twin/program.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::Level;
using opforge::twin::kernel::Text;

namespace {

namespace fs = std::filesystem;

constexpr aclError kInvalidProgram = 176000;
constexpr aclError kInvalidInput = 176001;
constexpr aclError kCompilation = 176003;
constexpr aclError kNameAfterCompilation = 176005;
constexpr aclError kNoLoweredNames = 176006;
constexpr aclError kInvalidName = 176007;
constexpr aclError kFailure = 576000;

constexpr int kNotFoundExit = 127;

struct Program {
    std::string source;
    std::string name;
    std::map<std::string, std::string> headers;
    std::map<std::string, std::string> lowered;  ///< expression -> name
    std::string binary;
    std::string log;
    bool isCompiled = false;
};

std::shared_ptr<Program> Require(const char* function, aclrtcProg prog, aclError& status)
{
    std::shared_ptr<Program> found = HandleTable<Program>::Instance().Share(prog);
    if (found == nullptr) {
        status =
            Fail(kInvalidProgram, Text(function, ": prog is no live handle; expected a result of aclrtcCreateProg"));
    }
    return found;
}

aclError Null(const char* function, const char* parameter)
{
    return Fail(kInvalidInput, Text(function, ": ", parameter, " is null"));
}

/// Writes a part of a live program to `target`.
template <typename Target, typename Write>
aclError Fill(const char* function, aclrtcProg prog, const char* parameter, Target* target, const Write& write)
{
    aclError status = ACL_SUCCESS;
    const auto program = Require(function, prog, status);
    if (program == nullptr) {
        return status;
    }
    if (target == nullptr) {
        return Null(function, parameter);
    }
    write(*program, target);
    return ACL_SUCCESS;
}

/// A folder that is removed at the end.
class Scratch {
public:
    Scratch() : path_((fs::temp_directory_path() / "opforge-rtc-XXXXXX").string())
    {
        if (mkdtemp(path_.data()) == nullptr) {
            throw std::system_error(errno, std::generic_category(), path_);
        }
    }
    ~Scratch()
    {
        std::error_code ignored;  // files that stay in the temporary folder are no error of the program
        fs::remove_all(path_, ignored);
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    std::string Name() const { return fs::path(path_).filename().string(); }
    fs::path operator/(const std::string& name) const { return fs::path(path_) / name; }

private:
    std::string path_;
};

void WriteFile(const fs::path& path, const std::string& text)
{
    fs::create_directories(path.parent_path());
    std::ofstream file(path, std::ios::binary);
    file << text;
    file.close();
    if (!file) {
        throw std::system_error(errno, std::generic_category(), path.string());
    }
}

std::string ReadFile(const fs::path& path)
{
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

/// Runs a command with its output in a file; returns its exit code.
int RunCommand(const std::vector<std::string>& words, const fs::path& output)
{
    std::vector<char*> arguments;
    for (const std::string& word : words) {
        arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    pid_t child = 0;
    const int error = posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        return kNotFoundExit;
    }
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(state) ? WEXITSTATUS(state) : kNotFoundExit;
}

/// The source with an entry for each registered expression.
std::string WithEntries(const Program& program)
{
    std::string text = program.source + "\n";
    for (const auto& [expression, name] : program.lowered) {
        text +=
            Text("# 1 \"aclrtcAddNameExpr\"\n",
                 "extern \"C\" __attribute__((visibility(\"default\"))) const ::opforge::twin::program::KernelEntry "
                 "opforgeKernel_",
                 name, " = ::opforge::twin::program::EntryOf<&", expression, ">::Named(\"", name, "\");\n");
    }
    return text;
}

bool IsInside(const std::string& name)
{
    const fs::path path = fs::path(name).lexically_normal();
    return !name.empty() && path.is_relative() && *path.begin() != "..";
}

/// Compiles in the process that supervises this one, which may start no compiler (twin/coverage/broker.py).
int CompileOutside(Program& program, const std::string& source, const std::vector<std::string>& options,
                   const Scratch& scratch, const fs::path& answers)
{
    std::string request;
    const auto add = [&request](const std::string& key, const std::string& value) {
        request.append(key.c_str(), key.size() + 1).append(value.c_str(), value.size() + 1);
    };
    add("source/" + source, WithEntries(program));
    for (const auto& [name, text] : program.headers) {
        add("header/" + name, text);
    }
    for (const std::string& option : options) {
        add("option", option);
    }
    WriteFile(scratch / "draft", request);
    fs::rename(scratch / "draft", scratch / "request");
    const fs::path answer = answers / scratch.Name();
    while (!fs::exists(answer / "status")) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    program.isCompiled = ReadFile(answer / "status") == "0";
    program.log = ReadFile(answer / "log");
    program.binary = program.isCompiled ? ReadFile(answer / "kernels.so") : "";
    return program.isCompiled ? 0 : 2;
}

int Compile(Program& program, const std::vector<std::string>& options)
{
    const Scratch scratch;
    const std::string source = IsInside(program.name) && fs::path(program.name).extension() == ".asc"
                                   ? fs::path(program.name).filename().string()
                                   : "program.asc";
    if (const char* const answers = std::getenv("OPFORGE_TWIN_ANSWERS"); answers != nullptr) {
        return CompileOutside(program, source, options, scratch, answers);
    }
    for (const auto& [name, text] : program.headers) {
        WriteFile(scratch / name, text);
    }
    WriteFile(scratch / source, WithEntries(program));
    const Level level = opforge::twin::ProcessOptions().level;
    std::vector<std::string> words{"opforge",
                                   "cc",
                                   (scratch / source).string(),
                                   "-o",
                                   (scratch / "kernels.so").string(),
                                   "-I",
                                   (scratch / "").string(),
                                   "--soc",
                                   CurrentSoc().name,
                                   "--level",
                                   level == Level::kStrict   ? "strict"
                                   : level == Level::kDevice ? "device"
                                                             : "fast",
                                   "--",
                                   "-shared",
                                   "-fPIC"};
    words.insert(words.end(), options.begin(), options.end());
    const int code = RunCommand(words, scratch / "log");
    program.log = code == kNotFoundExit
                      ? "opforge: cannot run `opforge cc`; expected the command in PATH; add its folder to PATH\n"
                      : ReadFile(scratch / "log");
    program.binary = code == 0 ? ReadFile(scratch / "kernels.so") : "";
    program.isCompiled = code == 0;
    return code;
}

}  // namespace

aclError aclrtcCreateProg(aclrtcProg* prog, const char* src, const char* name, int numHeaders, const char** headers,
                          const char** includeNames)
{
    constexpr const char* kFunction = "aclrtcCreateProg";
    if (prog == nullptr || src == nullptr) {
        return Null(kFunction, prog == nullptr ? "prog" : "src");
    }
    if (numHeaders < 0 || (numHeaders > 0 && (headers == nullptr || includeNames == nullptr))) {
        return Fail(kInvalidInput,
                    Text(kFunction, ": numHeaders is ", numHeaders, ", expected 0, or two arrays of this length"));
    }
    Program made;
    made.source = src;
    made.name = name == nullptr ? "" : name;
    for (int index = 0; index < numHeaders; ++index) {
        const char* const include = includeNames[index];
        if (headers[index] == nullptr || include == nullptr || !IsInside(include)) {
            return Fail(kInvalidInput, Text(kFunction, ": header ", index, " is '", include == nullptr ? "" : include,
                                            "', expected a text and a relative path without '..'"));
        }
        made.headers[include] = headers[index];
    }
    // A program of another compiler prints findings too.
    opforgeTwinStartProgram(CurrentSoc().name, "strict");
    *prog = HandleTable<Program>::Instance().Create(std::move(made));
    return ACL_SUCCESS;
}

aclError aclrtcDestroyProg(aclrtcProg* prog)
{
    if (prog == nullptr) {
        return Null("aclrtcDestroyProg", "prog");
    }
    aclError status = ACL_SUCCESS;
    if (Require("aclrtcDestroyProg", *prog, status) != nullptr) {
        HandleTable<Program>::Instance().Destroy(static_cast<Program*>(*prog));
        *prog = nullptr;
    }
    return status;
}

aclError aclrtcAddNameExpr(aclrtcProg prog, const char* nameExpression)
{
    constexpr const char* kFunction = "aclrtcAddNameExpr";
    aclError status = ACL_SUCCESS;
    const auto program = Require(kFunction, prog, status);
    if (program == nullptr) {
        return status;
    }
    if (nameExpression == nullptr) {
        return Null(kFunction, "nameExpression");
    }
    if (program->isCompiled) {
        return Fail(kNameAfterCompilation, Text(kFunction, ": called after aclrtcCompileProg; call it before"));
    }
    std::string name = Text("expression", program->lowered.size(), "_", nameExpression);
    std::replace_if(name.begin(), name.end(), [](unsigned char letter) { return std::isalnum(letter) == 0; }, '_');
    program->lowered.emplace(nameExpression, name);
    return ACL_SUCCESS;
}

aclError aclrtcGetLoweredName(aclrtcProg prog, const char* nameExpression, const char** loweredName)
{
    constexpr const char* kFunction = "aclrtcGetLoweredName";
    aclError status = ACL_SUCCESS;
    const auto program = Require(kFunction, prog, status);
    if (program == nullptr) {
        return status;
    }
    if (nameExpression == nullptr || loweredName == nullptr) {
        return Null(kFunction, nameExpression == nullptr ? "nameExpression" : "loweredName");
    }
    if (!program->isCompiled) {
        return Fail(kNoLoweredNames, Text(kFunction, ": called before a successful aclrtcCompileProg; call it after"));
    }
    const auto found = program->lowered.find(nameExpression);
    if (found == program->lowered.end()) {
        return Fail(kInvalidName,
                    Text(kFunction, ": got '", nameExpression, "', expected an expression of aclrtcAddNameExpr"));
    }
    *loweredName = found->second.c_str();
    return ACL_SUCCESS;
}

aclError aclrtcCompileProg(aclrtcProg prog, int numOptions, const char** options)
{
    constexpr const char* kFunction = "aclrtcCompileProg";
    aclError status = ACL_SUCCESS;
    const auto program = Require(kFunction, prog, status);
    if (program == nullptr) {
        return status;
    }
    if (numOptions < 0 || (numOptions > 0 && options == nullptr)) {
        return Fail(kInvalidInput,
                    Text(kFunction, ": numOptions is ", numOptions, ", expected 0, or an array of this length"));
    }
    try {
        const int code = Compile(*program, {options, options + numOptions});
        return code == 0 ? ACL_SUCCESS : Fail(kCompilation, Text(kFunction, ": ", program->log));
    } catch (const std::exception& error) {
        return Fail(kFailure, Text(kFunction, ": no files in the temporary folder: ", error.what()));
    }
}

aclError aclrtcGetBinDataSize(aclrtcProg prog, size_t* binDataSizeRet)
{
    return Fill("aclrtcGetBinDataSize", prog, "binDataSizeRet", binDataSizeRet,
                [](const Program& program, size_t* size) { *size = program.binary.size(); });
}

aclError aclrtcGetBinData(aclrtcProg prog, char* binData)
{
    return Fill("aclrtcGetBinData", prog, "binData", binData, [](const Program& program, char* data) {
        std::memcpy(data, program.binary.data(), program.binary.size());
    });
}

aclError aclrtcGetCompileLogSize(aclrtcProg prog, size_t* logSizeRet)
{
    return Fill("aclrtcGetCompileLogSize", prog, "logSizeRet", logSizeRet,
                [](const Program& program, size_t* size) { *size = program.log.size() + 1; });
}

aclError aclrtcGetCompileLog(aclrtcProg prog, char* log)
{
    return Fill("aclrtcGetCompileLog", prog, "log", log, [](const Program& program, char* text) {
        std::memcpy(text, program.log.c_str(), program.log.size() + 1);
    });
}
