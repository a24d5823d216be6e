// The registered parser plugins.
#ifndef OPFORGE_TWIN_HOST_GE_PLUGINS_H
#define OPFORGE_TWIN_HOST_GE_PLUGINS_H

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "register/register.h"

namespace opforge::twin::host {

/// The content of one REGISTER_CUSTOM_OP.
struct Plugin {
    std::string omType;
    std::set<std::string> keys;
    domi::FrameworkType framework = domi::FRAMEWORK_RESERVED;
    domi::ImplyType imply = domi::ImplyType::BUILDIN;
    domi::ParseParamFunc parseMessage;
    domi::ParseParamByOpFunc parseOperator;
    domi::ParseOpToGraphFunc parseToGraph;
};

/// Returns all plugins in registration order. The first plugin with a key is used for that key.
std::vector<std::shared_ptr<Plugin>> Plugins();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GE_PLUGINS_H
