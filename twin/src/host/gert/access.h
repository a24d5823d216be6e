// Gives the runtime access to the private members of the public classes.
#ifndef OPFORGE_TWIN_HOST_GERT_ACCESS_H
#define OPFORGE_TWIN_HOST_GERT_ACCESS_H

#include <memory>
#include <string>
#include <vector>

namespace opforge::twin::host {

struct Access {
    template <typename Context, typename Call>
    static Context MakeContext(Call& call)
    {
        return Context(call);
    }
    template <typename Attrs, typename Call>
    static void SetCall(Attrs& attributes, const Call& call)
    {
        attributes.call_ = &call;
    }
    template <typename T>
    static auto& Storage(T& tensor)
    {
        return tensor.storage_;
    }
    template <typename T>
    static auto& State(T& executor)
    {
        return executor.state_;
    }
    template <typename T>
    static auto& Node(T& operation)
    {
        return operation.node_;
    }
    template <typename T>
    static const auto& Types(const T& set)
    {
        return set.types_;
    }
    template <typename T>
    static const auto& PluginOf(const T& registration)
    {
        return registration.plugin_;
    }
    template <typename T>
    static const auto& ParameterOf(const T& definition)
    {
        return definition.parameter_;
    }
    template <typename T>
    static const std::string& FollowedBy(const T& definition)
    {
        return definition.followed_;
    }
    template <typename T>
    static const auto& CrossedBy(const T& definition)
    {
        return definition.crossed_;
    }
    template <typename T>
    static const auto& AttributeOf(const T& definition)
    {
        return definition.attribute_;
    }
    template <typename T>
    static const auto& SocsOf(const T& definition)
    {
        return definition.socs_;
    }
    template <typename T>
    static const auto& InputsOf(const T& definition)
    {
        return definition.inputs_;
    }
    template <typename T>
    static const auto& OutputsOf(const T& definition)
    {
        return definition.outputs_;
    }
    template <typename T>
    static const auto& AttributesOf(const T& definition)
    {
        return definition.attributes_;
    }
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GERT_ACCESS_H
