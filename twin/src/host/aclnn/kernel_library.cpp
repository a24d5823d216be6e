#include "host/aclnn/kernel_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>

#include "host/ge/names.h"
#include "kernel/exec/text.h"
#include "opforge_twin/kernel/language.h"

namespace opforge::twin::host {

namespace {

namespace fs = std::filesystem;
using kernel::Text;

std::string Joined(const std::vector<std::string>& words, const char* separator)
{
    std::string text;
    for (const std::string& word : words) {
        text += (text.empty() ? "" : separator) + word;
    }
    return text;
}

constexpr const char* kEmptyList = "any";

bool SelectsKernel(const Parameter& parameter)
{
    return parameter.kind != ParameterKind::kOptional;
}

void AddWords(const std::vector<Parameter>& parameters, const std::vector<ge::DataType>& dtypes,
              std::vector<std::string>& words)
{
    for (size_t i = 0; i < parameters.size(); ++i) {
        if (SelectsKernel(parameters[i])) {
            const bool isEmpty = parameters[i].kind == ParameterKind::kDynamic && dtypes[i] == ge::DT_UNDEFINED;
            words.push_back(isEmpty ? kEmptyList : DtypeName(dtypes[i]));
        }
    }
}

std::vector<std::string> WordsOf(const Definition& definition, const CallDtypes& dtypes)
{
    std::vector<std::string> words;
    AddWords(definition.inputs, dtypes.inputs, words);
    AddWords(definition.outputs, dtypes.outputs, words);
    return words;
}

CallDtypes ColumnOf(const Definition& definition, size_t column)
{
    const auto pick = [column](const std::vector<Parameter>& parameters) {
        std::vector<ge::DataType> dtypes;
        for (const Parameter& parameter : parameters) {
            dtypes.push_back(column < parameter.dtypes.size() ? parameter.dtypes[column] : ge::DT_UNDEFINED);
        }
        return dtypes;
    };
    return {pick(definition.inputs), pick(definition.outputs)};
}

/// Finds the column of the OpDef with the dtypes of the call. An empty list of tensors has the dtype of each column.
bool FindColumn(const Definition& definition, const CallDtypes& dtypes, std::vector<std::string>& words,
                std::string& problem)
{
    for (const auto* parameters : {&definition.inputs, &definition.outputs}) {
        for (const Parameter& parameter : *parameters) {
            if (parameter.dtypes.size() != definition.Columns()) {
                problem = Text("its OpDef has ", parameter.dtypes.size(), " dtypes for ", parameter.name, " and ",
                               definition.Columns(), " for ",
                               (definition.inputs.empty() ? definition.outputs : definition.inputs).front().name,
                               "; the lists are columns and need equal lengths");
                return false;
            }
        }
    }
    const std::vector<std::string> given = WordsOf(definition, dtypes);
    std::vector<std::string> columns;
    for (size_t column = 0; column < definition.Columns(); ++column) {
        words = WordsOf(definition, ColumnOf(definition, column));
        const auto isEqual = [](const std::string& word, const std::string& other) {
            return word == other || other == kEmptyList;
        };
        if (std::equal(words.begin(), words.end(), given.begin(), given.end(), isEqual)) {
            return true;
        }
        const std::string text = Joined(words, ", ");
        if (std::find(columns.begin(), columns.end(), text) == columns.end()) {
            columns.push_back(text);
        }
    }
    problem = Text("no kernel for dtypes (", Joined(given, ", "), "); expected (", Joined(columns, ") or ("), ")");
    return false;
}

}  // namespace

void* FindKernel(const Registered& operation, const CallDtypes& dtypes, const SocFigures& soc, const void* caller,
                 std::string& problem)
{
    const Definition& definition = *operation.definition;
    const std::string product = Text(soc.name, " (", soc.directory, ")");
    if (definition.socs.empty()) {
        problem = Text(operation.opType, ": no OpDef with AICore().AddConfig(..) is registered");
        return nullptr;
    }
    if (std::find(definition.socs.begin(), definition.socs.end(), soc.directory) == definition.socs.end()) {
        problem = Text(operation.opType, ": ", product, " is none of its products: ", Joined(definition.socs, ", "));
        return nullptr;
    }
    std::vector<std::string> words;
    if (!FindColumn(definition, dtypes, words, problem)) {
        problem = Text(operation.opType, ": ", problem);
        return nullptr;
    }
    const std::string name = SnakeCase(operation.opType);
    const fs::path inPackage = fs::path("op_impl") / "ai_core" / "tbe" / "kernel" / soc.directory / name /
                               (operation.opType + "_" + Joined(words, "_") + ".so");
    std::vector<std::string> folders = {operation.package->vendorDir};
    if (folders.front().empty()) {  // host code of the process itself: search all packages
        folders.clear();
        for (const Package* package : Registry::Instance().SearchOrder(caller)) {
            folders.push_back(package->vendorDir);
        }
    }
    for (const std::string& folder : folders) {
        const fs::path library = fs::path(folder) / inPackage;
        if (folder.empty() || !fs::exists(library)) {
            continue;
        }
        void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
        void* const function = handle == nullptr ? nullptr : dlsym(handle, name.c_str());
        if (function == nullptr) {
            problem = Text(operation.opType, ": cannot use ", library.string(), ": ", dlerror());
        }
        return function;
    }
    problem = Text(operation.opType, ": no kernel for ", product, " is built; expected ", inPackage.string(),
                   " in the package; build it with `opforge build --soc ", soc.name, "`");
    return nullptr;
}

}  // namespace opforge::twin::host
