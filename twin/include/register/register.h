// REGISTER_CUSTOM_OP: registers the conversion of framework nodes to operators for the parser.
#ifndef REGISTER_REGISTER_H
#define REGISTER_REGISTER_H

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/operator.h"
#include "register/op_impl_registry.h"
#include "register/register_fmk_types.h"
#include "register/register_types.h"

namespace google {
namespace protobuf {
class Message;
}  // namespace protobuf
}  // namespace google

namespace ge {
class Graph;
}  // namespace ge

namespace opforge::twin::host {
struct Access;
struct Plugin;
}  // namespace opforge::twin::host

namespace domi {
using ge::char_t;
using ParseParamFunc = std::function<domi::Status(const google::protobuf::Message*, ge::Operator&)>;
using ParseParamByOpFunc = std::function<domi::Status(const ge::Operator&, ge::Operator&)>;
using ParseOpToGraphFunc = std::function<domi::Status(const ge::Operator&, ge::Graph&)>;

/// All copies share one registration.
class OpRegistrationData {
public:
    OpRegistrationData(const std::string& om_optype);
    OpRegistrationData(const char_t* om_optype);

    OpRegistrationData& FrameworkType(const domi::FrameworkType& fmk_type);
    /// Sets the keys of the nodes: `<domain>::<opset>::<type>` for ONNX. Each call replaces the earlier keys.
    OpRegistrationData& OriginOpType(const std::initializer_list<std::string>& ori_optype_list);
    OpRegistrationData& OriginOpType(const std::vector<ge::AscendString>& ori_op_type_list);
    OpRegistrationData& OriginOpType(const std::string& ori_optype);
    OpRegistrationData& OriginOpType(const char_t* ori_op_type);
    OpRegistrationData& ParseParamsFn(const ParseParamFunc& parseParamFn);
    OpRegistrationData& ParseParamsByOperatorFn(const ParseParamByOpFunc& parse_param_by_op_fn);
    OpRegistrationData& ParseOpToGraphFn(const ParseOpToGraphFunc& parse_op_to_graph_fn);
    OpRegistrationData& ImplyType(const domi::ImplyType& imply_type);

    domi::ImplyType GetImplyType() const;
    std::string GetOmOptype() const;
    Status GetOmOptype(ge::AscendString& om_op_type) const;
    std::set<std::string> GetOriginOpTypeSet() const;
    Status GetOriginOpTypeSet(std::set<ge::AscendString>& ori_op_type) const;
    domi::FrameworkType GetFrameworkType() const;
    ParseParamFunc GetParseParamFn() const;
    ParseParamByOpFunc GetParseParamByOperatorFn() const;
    ParseOpToGraphFunc GetParseOpToGraphFn() const;

private:
    friend struct opforge::twin::host::Access;

    std::shared_ptr<opforge::twin::host::Plugin> plugin_;
};

class OpReceiver {
public:
    OpReceiver(const OpRegistrationData& reg_data);
};
}  // namespace domi

#define REGISTER_CUSTOM_OP(name)                                                                          \
    [[maybe_unused]] static const domi::OpReceiver OPFORGE_JOIN(opforgePluginRegistration, __COUNTER__) = \
        domi::OpRegistrationData(name)

#endif  // REGISTER_REGISTER_H
