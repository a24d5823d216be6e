// Feeds any attribute text to every getter of a node. A getter that fails returns a reason and does not change its
// value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "onnx_node.h"

namespace {

template <typename Value>
void Check(const opforge::OnnxNode& node, bool (opforge::OnnxNode::*get)(const char*, Value&, std::string&) const,
           const Value& untouched)
{
    for (const char* const name : {"a", "b", ""}) {
        Value value = untouched;
        std::string error;
        const bool isRead = (node.*get)(name, value, error);
        if (isRead ? !error.empty() : (error.empty() || !(value == untouched))) {
            std::abort();
        }
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    const std::string text(reinterpret_cast<const char*>(data), size);
    ge::Operator source("parsed", "Parsed");
    source.SetAttr("name", ge::AscendString(text.substr(size / 2).c_str()));
    source.SetAttr("op_type", ge::AscendString("opforge::1::Any"));
    source.SetAttr("attribute", ge::AscendString(text.c_str()));
    source.SetAttr("input", std::vector<ge::AscendString>{ge::AscendString("x"), ge::AscendString("")});
    const opforge::OnnxNode node(source);
    if (node.InputCount() != 1) {
        std::abort();
    }
    using Node = opforge::OnnxNode;
    Check<int64_t>(node, &Node::GetInt, 77);
    Check<float>(node, &Node::GetFloat, 77.0F);
    Check<std::string>(node, &Node::GetString, "77");
    Check<std::vector<int64_t>>(node, &Node::GetInts, {77});
    Check<std::vector<float>>(node, &Node::GetFloats, {77.0F});
    std::string error;
    if (!node.OnlyAttributes({"a"}, error) && error.empty()) {
        std::abort();
    }
    return 0;
}
