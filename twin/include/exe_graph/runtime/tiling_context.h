// The context of a tiling function.
#ifndef EXE_GRAPH_RUNTIME_TILING_CONTEXT_H
#define EXE_GRAPH_RUNTIME_TILING_CONTEXT_H

#include <cstddef>
#include <cstdint>

#include "exe_graph/runtime/extended_kernel_context.h"
#include "exe_graph/runtime/storage_shape.h"
#include "exe_graph/runtime/tensor.h"
#include "exe_graph/runtime/tiling_data.h"
#include "graph/types.h"

namespace fe {
class PlatFormInfos;
}  // namespace fe

namespace gert {
class TilingContext : public ExtendedKernelContext {
public:
    /// Returns the result of TilingParse; null if the operator registered none.
    const void* GetCompileInfo() const;
    template <typename T>
    const T* GetCompileInfo() const
    {
        return static_cast<const T*>(GetCompileInfo());
    }
    fe::PlatFormInfos* GetPlatformInfo() const;

    const StorageShape* GetInputShape(const size_t index) const;
    const Tensor* GetInputTensor(const size_t index) const;
    const Tensor* GetOptionalInputTensor(const size_t ir_index) const;
    const Tensor* GetRequiredInputTensor(const size_t ir_index) const;
    const Tensor* GetDynamicInputTensor(const size_t ir_index, const size_t relative_index) const;
    const StorageShape* GetOptionalInputShape(const size_t ir_index) const;
    const StorageShape* GetRequiredInputShape(const size_t ir_index) const;
    const StorageShape* GetDynamicInputShape(const size_t ir_index, const size_t relative_index) const;
    const StorageShape* GetOutputShape(const size_t index) const;
    int32_t GetDeterministic() const;

    ge::graphStatus SetTilingKey(const uint64_t tiling_key);
    uint64_t GetTilingKey() const;
    ge::graphStatus SetBlockDim(const uint32_t block_dim);
    /// The name of SetBlockDim since 2026.
    ge::graphStatus SetSimdNumBlocks(const uint32_t num_blocks) { return SetBlockDim(num_blocks); }
    uint32_t GetBlockDim() const;
    ge::graphStatus SetScheduleMode(const uint32_t schedule_mode);
    uint32_t GetScheduleMode() const;
    ge::graphStatus SetTilingCond(int32_t tiling_cond);
    int32_t GetTilingCond() const;
    ge::graphStatus SetNeedAtomic(const bool atomic);
    bool NeedAtomic() const;
    ge::graphStatus SetLocalMemorySize(const uint32_t local_memory_size);
    uint32_t GetLocalMemorySize() const;

    /// Returns null if T exceeds the registered capacity (default 2048 bytes).
    template <typename T>
    T* GetTilingData()
    {
        return static_cast<T*>(ClaimTilingData(sizeof(T)));
    }
    TilingData* GetRawTilingData();
    /// Returns an array of `workspace_count` sizes in bytes; the caller fills it.
    size_t* GetWorkspaceSizes(const size_t workspace_count);
    size_t GetWorkspaceNum() const;

private:
    friend struct opforge::twin::host::Access;

    explicit TilingContext(opforge::twin::host::OperatorCall& call) : ExtendedKernelContext(call) {}

    void* ClaimTilingData(size_t size);
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_TILING_CONTEXT_H
