#include "host/ge/plugins.h"

#include <mutex>
#include <utility>

#include "host/gert/access.h"

namespace opforge::twin::host {

namespace {

struct PluginList {
    std::mutex lock;
    std::vector<std::shared_ptr<Plugin>> plugins;
};

PluginList& TheList()
{
    static auto* list = new PluginList();
    return *list;
}

}  // namespace

std::vector<std::shared_ptr<Plugin>> Plugins()
{
    PluginList& list = TheList();
    const std::lock_guard<std::mutex> guard(list.lock);
    return list.plugins;
}

}  // namespace opforge::twin::host

namespace domi {

using opforge::twin::host::Access;
using opforge::twin::host::Plugin;
using opforge::twin::host::TheList;

OpRegistrationData::OpRegistrationData(const std::string& om_optype) : plugin_(std::make_shared<Plugin>())
{
    plugin_->omType = om_optype;
}

OpRegistrationData::OpRegistrationData(const char_t* om_optype)
    : OpRegistrationData(std::string(om_optype == nullptr ? "" : om_optype))
{
}

OpRegistrationData& OpRegistrationData::FrameworkType(const domi::FrameworkType& fmk_type)
{
    plugin_->framework = fmk_type;
    return *this;
}

OpRegistrationData& OpRegistrationData::OriginOpType(const std::initializer_list<std::string>& ori_optype_list)
{
    plugin_->keys = ori_optype_list;
    return *this;
}

OpRegistrationData& OpRegistrationData::OriginOpType(const std::vector<ge::AscendString>& ori_op_type_list)
{
    plugin_->keys.clear();
    for (const ge::AscendString& key : ori_op_type_list) {
        plugin_->keys.insert(key.GetString());
    }
    return *this;
}

OpRegistrationData& OpRegistrationData::OriginOpType(const std::string& ori_optype)
{
    plugin_->keys = {ori_optype};
    return *this;
}

OpRegistrationData& OpRegistrationData::OriginOpType(const char_t* ori_op_type)
{
    return OriginOpType(std::string(ori_op_type == nullptr ? "" : ori_op_type));
}

OpRegistrationData& OpRegistrationData::ParseParamsFn(const ParseParamFunc& parseParamFn)
{
    plugin_->parseMessage = parseParamFn;
    return *this;
}

OpRegistrationData& OpRegistrationData::ParseParamsByOperatorFn(const ParseParamByOpFunc& parse_param_by_op_fn)
{
    plugin_->parseOperator = parse_param_by_op_fn;
    return *this;
}

OpRegistrationData& OpRegistrationData::ParseOpToGraphFn(const ParseOpToGraphFunc& parse_op_to_graph_fn)
{
    plugin_->parseToGraph = parse_op_to_graph_fn;
    return *this;
}

OpRegistrationData& OpRegistrationData::ImplyType(const domi::ImplyType& imply_type)
{
    plugin_->imply = imply_type;
    return *this;
}

domi::ImplyType OpRegistrationData::GetImplyType() const
{
    return plugin_->imply;
}
std::string OpRegistrationData::GetOmOptype() const
{
    return plugin_->omType;
}

Status OpRegistrationData::GetOmOptype(ge::AscendString& om_op_type) const
{
    om_op_type = ge::AscendString(plugin_->omType.c_str());
    return SUCCESS;
}

std::set<std::string> OpRegistrationData::GetOriginOpTypeSet() const
{
    return plugin_->keys;
}

Status OpRegistrationData::GetOriginOpTypeSet(std::set<ge::AscendString>& ori_op_type) const
{
    for (const std::string& key : plugin_->keys) {
        ori_op_type.insert(ge::AscendString(key.c_str()));
    }
    return SUCCESS;
}

domi::FrameworkType OpRegistrationData::GetFrameworkType() const
{
    return plugin_->framework;
}
ParseParamFunc OpRegistrationData::GetParseParamFn() const
{
    return plugin_->parseMessage;
}
ParseParamByOpFunc OpRegistrationData::GetParseParamByOperatorFn() const
{
    return plugin_->parseOperator;
}
ParseOpToGraphFunc OpRegistrationData::GetParseOpToGraphFn() const
{
    return plugin_->parseToGraph;
}

OpReceiver::OpReceiver(const OpRegistrationData& reg_data)
{
    opforge::twin::host::PluginList& list = TheList();
    const std::lock_guard<std::mutex> guard(list.lock);
    list.plugins.push_back(Access::PluginOf(reg_data));
}

}  // namespace domi
