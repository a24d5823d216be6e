#include "register/register.h"

namespace {

domi::Status Parse(const ge::Operator& source, ge::Operator& target)
{
    ge::AscendString attributes;
    std::vector<ge::AscendString> inputs;
    if (source.GetAttr("attribute", attributes) != ge::GRAPH_SUCCESS ||
        source.GetAttr("input", inputs) != ge::GRAPH_SUCCESS || attributes == "refuse") {
        return domi::FAILED;
    }
    target.SetAttr("factor", 0.5F);
    target.SetAttr("mode", attributes);
    target.SetAttr("axes", std::vector<int64_t>{static_cast<int64_t>(inputs.size())});
    return domi::SUCCESS;
}

}  // namespace

namespace domi {

REGISTER_CUSTOM_OP("ScaledAdd")
    .FrameworkType(ONNX)
    .OriginOpType(std::vector<ge::AscendString>{"tests::1::ScaledAdd", "ai.onnx::18::ScaledAdd"})
    .ParseParamsByOperatorFn(Parse)
    .ImplyType(ImplyType::TVM);

REGISTER_CUSTOM_OP("NoSuchPrototype")
    .FrameworkType(ONNX)
    .OriginOpType("tests::1::NoSuchPrototype")
    .ParseParamsByOperatorFn(Parse)
    .ImplyType(ImplyType::TVM);

}  // namespace domi
