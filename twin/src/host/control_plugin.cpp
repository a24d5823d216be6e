// Calls parser plugins in the same way as the ONNX parser.
#include <memory>
#include <string>
#include <vector>

#include "graph/operator.h"
#include "graph/operator_factory.h"
#include "host/gert/access.h"
#include "host/acl/errors.h"
#include "host/ge/names.h"
#include "host/aclnn/operator_node.h"
#include "host/ge/plugins.h"
#include "kernel/exec/report_json.h"
#include "kernel/exec/text.h"
#include "opforge_twin/control.h"

using namespace opforge::twin::host;  // NOLINT: definitions of the C API follow
using opforge::twin::ErrorJson;
using opforge::twin::Quoted;
using opforge::twin::kernel::Text;

namespace {

template <typename Items, typename Write>
std::string Joined(const Items& items, const Write& write)
{
    std::string text;
    for (const auto& item : items) {
        text += (text.empty() ? "" : ", ") + write(item);
    }
    return text;
}

std::string Bool(bool value)
{
    return value ? "true" : "false";
}

/// Returns a value as JSON; returns its type in quotes if JSON cannot represent it.
std::string ValueText(const ge::AttrValue& value)
{
    int64_t number = 0;
    float real = 0;
    bool truth = false;
    std::string text;
    std::vector<int64_t> numbers;
    std::vector<float> reals;
    std::vector<bool> truths;
    std::vector<std::string> texts;
    if (value.GetValue(number) == ge::GRAPH_SUCCESS) {
        return Text(number);
    }
    if (value.GetValue(real) == ge::GRAPH_SUCCESS) {
        return Text(real);
    }
    if (value.GetValue(truth) == ge::GRAPH_SUCCESS) {
        return Bool(truth);
    }
    if (value.GetValue(text) == ge::GRAPH_SUCCESS) {
        return Quoted(text);
    }
    if (value.GetValue(numbers) == ge::GRAPH_SUCCESS) {
        return DimsText(numbers);
    }
    if (value.GetValue(reals) == ge::GRAPH_SUCCESS) {
        return Text("[", Joined(reals, [](float item) { return Text(item); }), "]");
    }
    if (value.GetValue(truths) == ge::GRAPH_SUCCESS) {
        return Text("[", Joined(truths, Bool), "]");
    }
    if (value.GetValue(texts) == ge::GRAPH_SUCCESS) {
        return Text("[", Joined(texts, Quoted), "]");
    }
    return Quoted(value.TypeName());
}

std::string OperatorText(const ge::Operator& parsed)
{
    const OperatorNode& node = *Access::Node(parsed);
    const auto name = [](const auto& port) { return Quoted(port.first); };
    const auto attribute = [](const auto& item) { return Text(Quoted(item.first), ": ", ValueText(item.second)); };
    return Text("{\"om_type\": ", Quoted(node.type), ", \"inputs\": [", Joined(node.inputs, name), "], \"outputs\": [",
                Joined(node.outputs, name), "], \"attributes\": {", Joined(node.attributes, attribute), "}}");
}

std::vector<ge::AscendString> NamesOf(const char* const* names, uint64_t count)
{
    return std::vector<ge::AscendString>(names, names + count);
}

std::string ParseText(const std::string& key, ge::Operator& source)
{
    for (const std::shared_ptr<Plugin>& plugin : Plugins()) {
        if (plugin->keys.count(key) == 0) {
            continue;
        }
        ge::Operator target = ge::OperatorFactory::CreateOperator(source.GetName(), plugin->omType);
        if (target.IsEmpty()) {
            return ErrorJson(
                Text("E10501: IR for Op ", source.GetName(), " with optype ", plugin->omType, " is not registered"));
        }
        if (plugin->parseOperator == nullptr) {
            return ErrorJson(Text(key, ": the plugin has no ParseParamsByOperatorFn"));
        }
        const size_t before = ErrorLength();
        const domi::Status status = plugin->parseOperator(source, target);
        if (status == domi::SUCCESS) {
            return OperatorText(target);
        }
        const std::string said = TakeErrorsBehind(before);
        return ErrorJson(Text(key, ": the plugin refused the node (status ", status,
                              "): ", said.empty() ? "it logged no reason; what it prints is on stderr" : said));
    }
    return ErrorJson(Text("E13010: No operator plugin is registered for Op ", source.GetName(), ", optype ", key));
}

}  // namespace

const char* opforgeTwinPlugins()
{
    thread_local std::string answer;
    const auto plugin = [](const std::shared_ptr<Plugin>& item) {
        return Text("{\"om_type\": ", Quoted(item->omType), ", \"framework\": ", static_cast<int>(item->framework),
                    ", \"keys\": [", Joined(item->keys, Quoted), "]}");
    };
    answer = Text("[", Joined(Plugins(), plugin), "]");
    return answer.c_str();
}

const char* opforgeTwinParseNode(const char* key, const char* name, const char* domain, const char* attributes,
                                 const char* const* inputs, uint64_t inputCount, const char* const* outputs,
                                 uint64_t outputCount)
{
    thread_local std::string answer;
    ge::Operator source(name, key);
    source.SetAttr("name", ge::AscendString(name));
    source.SetAttr("op_type", ge::AscendString(key));
    source.SetAttr("domain", ge::AscendString(domain));
    source.SetAttr("attribute", ge::AscendString(attributes));
    source.SetAttr("input", NamesOf(inputs, inputCount));
    source.SetAttr("output", NamesOf(outputs, outputCount));
    answer = ParseText(key, source);
    return answer.c_str();
}
