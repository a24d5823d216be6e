// Runs the parse function of the generated plugin of GroupedBiasAddGrad: parse_node <JSON text> [input]... Prints "ok
// <group_idx_type>" or "failed"; the plugin prints the reason.
#include <cstdint>
#include <iostream>
#include <vector>

#include "grouped_bias_add_grad_onnx_plugin.cpp"

int main(int argc, char** argv)
{
    if (argc < 2) {
        return 2;
    }
    ge::Operator source("parsed", "Parsed");
    source.SetAttr("name", ge::AscendString("grad"));
    source.SetAttr("op_type", ge::AscendString("npu::1::NPUGroupedBiasAddGrad"));
    source.SetAttr("attribute", ge::AscendString(argv[1]));
    source.SetAttr("input", std::vector<ge::AscendString>(argv + 2, argv + argc));

    ge::Operator target("grad", "GroupedBiasAddGrad");
    if (opforge::ParseGroupedBiasAddGrad(source, target) != domi::SUCCESS) {
        std::cout << "failed";
        return 0;
    }
    int64_t groupIdxType = -1;
    target.GetAttr("group_idx_type", groupIdxType);
    std::cout << "ok " << groupIdxType;
    return 0;
}
