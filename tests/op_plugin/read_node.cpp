// Reads one attribute of an ONNX node like a generated plugin: read_node <getter> <attribute> <JSON text> [input]...
// Prints "ok <value>" or "no <error>"; the initial value is 77, so that an unchanged one is visible.
#include <iostream>
#include <string>
#include <vector>

#include "onnx_node.h"

namespace {

int Report(bool isRead, const std::string& value, const std::string& error)
{
    std::cout << (isRead ? "ok " + value : "no " + error);
    return 0;
}

std::string Join(const std::vector<int64_t>& values)
{
    std::string text;
    for (const int64_t value : values) {
        text += (text.empty() ? "" : ",") + std::to_string(value);
    }
    return text;
}

std::string DescribeInputs(const opforge::OnnxNode& node)
{
    std::string text = node.Name() + " " + node.Key() + " " + std::to_string(node.InputCount()) + " ";
    for (size_t i = 0; i < 5; ++i) {
        text += node.HasInput(i) ? '1' : '0';
    }
    return text;
}

}  // namespace

int main(int argc, char** argv)
{
    if (argc < 4) {
        return 2;
    }
    const std::string getter = argv[1];
    const char* const attribute = argv[2];
    ge::Operator source("parsed", "Parsed");
    source.SetAttr("name", ge::AscendString("grad"));
    source.SetAttr("op_type", ge::AscendString("npu::1::NPUGroupedBiasAddGrad"));
    source.SetAttr("attribute", ge::AscendString(argv[3]));
    source.SetAttr("input", std::vector<ge::AscendString>(argv + 4, argv + argc));

    const opforge::OnnxNode node(source);
    std::string error;
    if (getter == "int") {
        int64_t value = 77;
        const bool isRead = node.GetInt(attribute, value, error);
        return Report(isRead, std::to_string(value), error);
    }
    if (getter == "float") {
        float value = 77.0F;
        const bool isRead = node.GetFloat(attribute, value, error);
        return Report(isRead, std::to_string(value), error);
    }
    if (getter == "string") {
        std::string value = "77";
        const bool isRead = node.GetString(attribute, value, error);
        return Report(isRead, value, error);
    }
    if (getter == "ints") {
        std::vector<int64_t> value = {77};
        const bool isRead = node.GetInts(attribute, value, error);
        return Report(isRead, Join(value), error);
    }
    if (getter == "only") {
        return Report(node.OnlyAttributes({attribute, "other"}, error), "", error);
    }
    if (getter == "has") {
        return Report(true, node.Has(attribute) ? "yes" : "no", error);
    }
    return Report(true, DescribeInputs(node), error);
}
