// The memory behind tensors.
#ifndef OPFORGE_TWIN_HOST_STORAGE_H
#define OPFORGE_TWIN_HOST_STORAGE_H

#include <cstdint>
#include <vector>

/// Device memory of the application, a slot in the workspace of an executor, or values on the host.
struct aclStorage {
    void* address = nullptr;       ///< of the application's memory, or of `host`
    bool fromWorkspace = false;    ///< the address is known when the second phase gets the workspace
    uint64_t workspaceOffset = 0;  ///< bytes from the start of the workspace
    uint64_t bytes = 0;            ///< of a workspace slot, when the executor has planned it
    bool destroyed = false;        ///< the application destroyed the tensor it belongs to
    std::vector<uint8_t> host;     ///< of a host tensor
    bool onHost = false;
};

#endif  // OPFORGE_TWIN_HOST_STORAGE_H
