// The memory of tensors.
#ifndef OPFORGE_TWIN_HOST_STORAGE_H
#define OPFORGE_TWIN_HOST_STORAGE_H

#include <cstdint>
#include <vector>

/// Device memory of the application, a workspace slot of an executor, or host values.
struct aclStorage {
    void* address = nullptr;       ///< application memory, or the data of `host`
    bool fromWorkspace = false;    ///< the address is set when the second phase receives the workspace
    uint64_t workspaceOffset = 0;  ///< bytes from the start of the workspace
    uint64_t bytes = 0;            ///< size of a workspace slot, set when the executor plans it
    bool destroyed = false;        ///< the application destroyed the tensor that owns it
    std::vector<uint8_t> host;     ///< data of a host tensor
    bool onHost = false;
};

#endif  // OPFORGE_TWIN_HOST_STORAGE_H
