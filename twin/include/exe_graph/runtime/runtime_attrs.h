// The attributes of a call, by IR index.
#ifndef EXE_GRAPH_RUNTIME_RUNTIME_ATTRS_H
#define EXE_GRAPH_RUNTIME_RUNTIME_ATTRS_H

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "exe_graph/runtime/continuous_vector.h"
#include "exe_graph/runtime/tensor.h"
#include "opforge_twin/host/attribute.h"

namespace opforge::twin::host {
struct Access;
struct OperatorCall;
}  // namespace opforge::twin::host

namespace gert {
/// Getters return null after the last attribute. A getter with a wrong type is an error of the caller: it returns null,
/// and the host function fails.
class RuntimeAttrs {
public:
    template <typename T>
    const T* GetAttrPointer(size_t index) const
    {
        using opforge::twin::host::AttributeType;
        static_assert(std::is_same_v<T, int64_t> || std::is_same_v<T, float> || std::is_same_v<T, bool> ||
                          std::is_same_v<T, char> || std::is_base_of_v<ContinuousVector, T> ||
                          std::is_same_v<T, ContinuousVectorVector>,
                      "attributes are int64_t, float, bool, char (text) or continuous vectors");
        if constexpr (std::is_same_v<T, int64_t>) {
            return static_cast<const T*>(Find(index, AttributeType::kInt));
        } else if constexpr (std::is_same_v<T, float>) {
            return static_cast<const T*>(Find(index, AttributeType::kFloat));
        } else if constexpr (std::is_same_v<T, bool>) {
            return static_cast<const T*>(Find(index, AttributeType::kBool));
        } else if constexpr (std::is_same_v<T, char>) {
            return static_cast<const T*>(Find(index, AttributeType::kString));
        } else if constexpr (std::is_same_v<T, TypedContinuousVector<int64_t>>) {
            return static_cast<const T*>(Find(index, AttributeType::kListInt));
        } else if constexpr (std::is_same_v<T, TypedContinuousVector<float>>) {
            return static_cast<const T*>(Find(index, AttributeType::kListFloat));
        } else if constexpr (std::is_same_v<T, ContinuousVectorVector>) {
            return static_cast<const T*>(Find(index, AttributeType::kListListInt));
        } else {
            return static_cast<const T*>(FindList(index));
        }
    }

    const int64_t* GetInt(const size_t index) const { return GetAttrPointer<int64_t>(index); }
    const float* GetFloat(const size_t index) const { return GetAttrPointer<float>(index); }
    const bool* GetBool(const size_t index) const { return GetAttrPointer<bool>(index); }
    const char* GetStr(const size_t index) const { return GetAttrPointer<char>(index); }
    const TypedContinuousVector<int64_t>* GetListInt(const size_t index) const
    {
        return GetAttrPointer<TypedContinuousVector<int64_t>>(index);
    }
    const TypedContinuousVector<float>* GetListFloat(const size_t index) const
    {
        return GetAttrPointer<TypedContinuousVector<float>>(index);
    }
    const ContinuousVectorVector* GetListListInt(const size_t index) const
    {
        return GetAttrPointer<ContinuousVectorVector>(index);
    }
    size_t GetAttrNum() const;

private:
    friend struct opforge::twin::host::Access;

    const void* Find(size_t index, opforge::twin::host::AttributeType type) const;
    const void* FindList(size_t index) const;

    const opforge::twin::host::OperatorCall* call_ = nullptr;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_RUNTIME_ATTRS_H
