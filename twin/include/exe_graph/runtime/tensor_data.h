// The memory of a tensor: address, size and placement.
#ifndef EXE_GRAPH_RUNTIME_TENSOR_DATA_H
#define EXE_GRAPH_RUNTIME_TENSOR_DATA_H

#include <cstddef>
#include <cstdint>

#include "graph/ge_error_codes.h"

namespace gert {
using TensorAddress = void*;
using ConstTensorAddressPtr = void*;

enum TensorOperateType {
    kGetTensorAddress,
    kFreeTensor,
    kPlusShareCount,
    kTensorOperateType,
};

/// Manages the memory of an address: get, share and free.
using TensorAddrManager = ge::graphStatus (*)(TensorAddress addr, TensorOperateType operate_type, void** out);

enum TensorPlacement : int32_t {
    kOnDeviceHbm = 0,
    kOnHost = 1,
    kFollowing = 2,
    kOnDeviceP2p = 3,
    kTensorPlacementEnd = 4,
};

class TensorData {
public:
    explicit TensorData(TensorAddress addr = nullptr, const TensorAddrManager manager = nullptr)
        : TensorData(addr, manager, 0, kTensorPlacementEnd)
    {
    }
    TensorData(TensorAddress addr, const TensorAddrManager manager, size_t size, TensorPlacement placement)
        : addr_(addr), manager_(manager), size_(size), placement_(placement)
    {
    }
    TensorData(const TensorData&) = delete;
    TensorData& operator=(const TensorData&) = delete;
    TensorData(TensorData&& other) noexcept;
    TensorData& operator=(TensorData&& other) noexcept;
    ~TensorData() { Free(); }

    TensorAddress GetAddr() const;
    size_t GetSize() const { return size_; }
    void SetSize(const size_t size) { size_ = size; }
    TensorPlacement GetPlacement() const { return placement_; }
    void SetPlacement(const TensorPlacement placement) { placement_ = placement; }
    ge::graphStatus Free();
    ge::graphStatus SetAddr(const ConstTensorAddressPtr addr, TensorAddrManager manager);
    bool IsSharedWith(const TensorData& other) const { return addr_ == other.addr_ && manager_ == other.manager_; }
    ge::graphStatus ShareFrom(const TensorData& other);
    TensorAddress Release(TensorAddrManager& manager);

private:
    TensorAddress addr_;
    TensorAddrManager manager_;
    size_t size_;
    TensorPlacement placement_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_TENSOR_DATA_H
