// Tiling data, tiling keys and task types: the code that the op compiler adds to a kernel.
#ifndef OPFORGE_TWIN_KERNEL_TILING_H
#define OPFORGE_TWIN_KERNEL_TILING_H

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// One member or array of the tiling data.
template <typename T>
struct TilingField {
    T value;
};

/// `plannedUbBytes` of tiling data that have such a field.
template <typename T, typename = void>
inline constexpr bool kHasPlannedUbBytes = false;
template <typename T>
inline constexpr bool kHasPlannedUbBytes<T, std::void_t<decltype(T::plannedUbBytes)>> = true;

template <typename T>
OPFORGE_API T CopyTiling(volatile const uint8_t* tiling, uint64_t offset)
{
    static_assert(std::is_trivially_copyable_v<T> && std::is_standard_layout_v<T>,
                  "tiling data is plain data: fixed-width integers, floats, arrays, nested structs");
    T data;
    ReadTiling(static_cast<void*>(&data), offset, sizeof(T), tiling, {"GET_TILING_DATA", Here()});
    if constexpr (kHasPlannedUbBytes<T>) {
        PlanUnifiedBuffer(static_cast<int64_t>(data.plannedUbBytes));
    }
    return data;
}

/// Copies a member of the structure of GET_TILING_DATA_PTR_WITH_STRUCT, or what a pointer to it points to.
template <typename T, typename Source>
T CopyMember(const Source& source)
{
    T copy;
    if constexpr (std::is_pointer_v<Source>) {
        __builtin_memcpy(static_cast<void*>(&copy), const_cast<const void*>(static_cast<const volatile void*>(source)),
                         sizeof(T));
    } else {
        static_assert(sizeof(T) == sizeof(Source), "the type is not that of the member");
        __builtin_memcpy(static_cast<void*>(&copy), const_cast<const void*>(static_cast<const volatile void*>(&source)),
                         sizeof(T));
    }
    return copy;
}

OPFORGE_API inline void DeclareTaskType(KernelMetaType type, const char* macro)
{
    DeclareTaskType(type, Call{macro, Here()});
}

}  // namespace opforge::twin::kernel

/// The first statement of a kernel. It sets `structure` as the type that GET_TILING_DATA reads.
#define REGISTER_TILING_DEFAULT(structure)                   \
    using OpforgeDefaultTiling [[maybe_unused]] = structure; \
    static_assert(std::is_default_constructible_v<structure>, "a tiling struct is default-constructible")

#define GET_TILING_DATA(variable, tiling) \
    [[maybe_unused]] auto variable = opforge::twin::kernel::CopyTiling<OpforgeDefaultTiling>(tiling, 0)

#define GET_TILING_DATA_WITH_STRUCT(structure, variable, tiling) \
    [[maybe_unused]] structure variable = opforge::twin::kernel::CopyTiling<structure>(tiling, 0)

#define GET_TILING_DATA_MEMBER(structure, member, variable, tiling)                                         \
    [[maybe_unused]] const auto& variable =                                                                 \
        opforge::twin::kernel::CopyTiling<opforge::twin::kernel::TilingField<decltype(structure::member)>>( \
            tiling, offsetof(structure, member))                                                            \
            .value

/// The pointer is to a copy, which exists until the end of the scope.
#define GET_TILING_DATA_PTR_WITH_STRUCT(structure, pointer, tiling)                              \
    const structure pointer##OfTiling = opforge::twin::kernel::CopyTiling<structure>(tiling, 0); \
    [[maybe_unused]] const __gm__ structure* pointer = &pointer##OfTiling
#define COPY_TILING_WITH_STRUCT(structure, source, pointer)                                   \
    const structure pointer##OfTiling = opforge::twin::kernel::CopyMember<structure>(source); \
    [[maybe_unused]] const structure* pointer = &pointer##OfTiling
#define COPY_TILING_WITH_ARRAY(type, count, source, pointer)                                        \
    const auto pointer##OfTiling =                                                                  \
        opforge::twin::kernel::CopyMember<opforge::twin::kernel::TilingField<type[count]>>(source); \
    [[maybe_unused]] const type(*pointer)[count] = &pointer##OfTiling.value

/// Structures of single keys: GET_TILING_DATA_WITH_STRUCT names them.
#define REGISTER_TILING_FOR_TILINGKEY(expression, structure) \
    static_assert(std::is_default_constructible_v<structure>, "a tiling struct is default-constructible")
#define REGISTER_NONE_TILING static_assert(true)

/// All keys are compiled into one library, and the key of the launch selects a branch. A launch without a branch is a
/// finding.
#define TILING_KEY_IS(key) (opforge::twin::kernel::TilingKeyIs(static_cast<uint64_t>(key)))

/// Asks the compiler for a second binary with an order of sums that is always the same; the twin has one binary.
#define ENABLE_DETERMINISTIC() static_assert(true)

#define TILING_KEY_LIST(first, second) (TILING_KEY_IS(first) || TILING_KEY_IS(second))

#if OPFORGE_TWIN_IS_COUPLED
#define KERNEL_TASK_TYPE_DEFAULT(type) \
    static_assert(false,               \
                  "KERNEL_TASK_TYPE_DEFAULT: the compiler of Ascend 910 stops at it; guard it with __CCE_AICORE__")
#define KERNEL_TASK_TYPE(key, type) \
    static_assert(false, "KERNEL_TASK_TYPE: the compiler of Ascend 910 stops at it; guard it with __CCE_AICORE__")
#else
#define KERNEL_TASK_TYPE_DEFAULT(type) opforge::twin::kernel::DeclareTaskType(type, "KERNEL_TASK_TYPE_DEFAULT")

#define KERNEL_TASK_TYPE(key, type)                                         \
    (opforge::twin::kernel::TilingKey() == static_cast<uint64_t>(key)       \
         ? opforge::twin::kernel::DeclareTaskType(type, "KERNEL_TASK_TYPE") \
         : static_cast<void>(0))
#endif

#endif  // OPFORGE_TWIN_KERNEL_TILING_H
