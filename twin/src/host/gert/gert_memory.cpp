// The containers of gert: vectors in one memory block, tensor data, tiling data.
#include <utility>

#include "exe_graph/runtime/continuous_vector.h"
#include "exe_graph/runtime/tensor_data.h"
#include "exe_graph/runtime/tiling_data.h"
#include "opforge_twin/arithmetic.h"
#include "register/tilingdata_base.h"

namespace gert {

void ContinuousVector::Init(const size_t capacity)
{
    capacity_ = capacity;
    size_ = 0;
}

ge::graphStatus ContinuousVector::SetSize(const size_t size)
{
    if (size > capacity_) {
        return ge::GRAPH_FAILED;
    }
    size_ = size;
    return ge::GRAPH_SUCCESS;
}

void ContinuousVectorVector::Init(const size_t capacity)
{
    capacity_ = capacity;
    size_ = 0;
    blocks_ = std::make_unique<std::unique_ptr<uint8_t[]>[]>(capacity);
}

const ContinuousVector* ContinuousVectorVector::Get(const size_t index) const
{
    return index < size_ ? reinterpret_cast<const ContinuousVector*>(blocks_[index].get()) : nullptr;
}

ContinuousVector* ContinuousVectorVector::Keep(std::unique_ptr<uint8_t[]> block)
{
    blocks_[size_] = std::move(block);
    return reinterpret_cast<ContinuousVector*>(blocks_[size_++].get());
}

TensorData::TensorData(TensorData&& other) noexcept
    : addr_(other.addr_), manager_(other.manager_), size_(other.size_), placement_(other.placement_)
{
    other.addr_ = nullptr;
    other.manager_ = nullptr;
}

TensorData& TensorData::operator=(TensorData&& other) noexcept
{
    if (this != &other) {
        Free();
        addr_ = std::exchange(other.addr_, nullptr);
        manager_ = std::exchange(other.manager_, nullptr);
        size_ = other.size_;
        placement_ = other.placement_;
    }
    return *this;
}

TensorAddress TensorData::GetAddr() const
{
    void* address = addr_;
    if (manager_ != nullptr && manager_(addr_, kGetTensorAddress, &address) != ge::GRAPH_SUCCESS) {
        return nullptr;
    }
    return address;
}

ge::graphStatus TensorData::Free()
{
    const ge::graphStatus status = manager_ == nullptr ? ge::GRAPH_SUCCESS : manager_(addr_, kFreeTensor, nullptr);
    addr_ = nullptr;
    manager_ = nullptr;
    return status;
}

ge::graphStatus TensorData::SetAddr(const ConstTensorAddressPtr addr, TensorAddrManager manager)
{
    const ge::graphStatus status = Free();
    addr_ = addr;
    manager_ = manager;
    return status;
}

ge::graphStatus TensorData::ShareFrom(const TensorData& other)
{
    if (IsSharedWith(other)) {
        return ge::GRAPH_SUCCESS;
    }
    const ge::graphStatus freed = Free();
    if (freed != ge::GRAPH_SUCCESS) {
        return freed;
    }
    addr_ = other.addr_;
    manager_ = other.manager_;
    size_ = other.size_;
    placement_ = other.placement_;
    return manager_ == nullptr ? ge::GRAPH_SUCCESS : manager_(addr_, kPlusShareCount, nullptr);
}

TensorAddress TensorData::Release(TensorAddrManager& manager)
{
    manager = std::exchange(manager_, nullptr);
    return std::exchange(addr_, nullptr);
}

std::unique_ptr<uint8_t[]> TilingData::CreateCap(const size_t cap_size)
{
    size_t total = 0;
    if (CalcTotalSize(cap_size, total) != ge::GRAPH_SUCCESS) {
        return nullptr;
    }
    std::unique_ptr<uint8_t[]> block(new uint8_t[total]());
    (new (block.get()) TilingData())->Init(cap_size, block.get() + sizeof(TilingData));
    return block;
}

ge::graphStatus TilingData::CalcTotalSize(const size_t cap_size, size_t& total_size)
{
    return __builtin_add_overflow(sizeof(TilingData), cap_size, &total_size) ? ge::GRAPH_FAILED : ge::GRAPH_SUCCESS;
}

void TilingData::Init(const size_t cap_size, void* const data)
{
    capacity_ = cap_size;
    dataSize_ = 0;
    data_ = data;
}

void* TilingData::Expand(size_t size)
{
    if (size > capacity_ || dataSize_ > capacity_ - size) {
        return nullptr;
    }
    void* const place = static_cast<uint8_t*>(data_) + dataSize_;
    dataSize_ += size;
    return place;
}

}  // namespace gert

namespace optiling {

void TilingDef::SaveToBuffer(void* pdata, size_t capacity)
{
    if (pdata != nullptr && bytes_.size() <= capacity) {
        std::memcpy(pdata, At(0), bytes_.size());
    }
}

size_t TilingDef::Place(size_t size, size_t alignment, size_t count)
{
    const size_t offset = opforge::twin::RoundUp(bytes_.size(), alignment);
    bytes_.resize(offset + size * count);
    alignment_ = alignment > alignment_ ? alignment : alignment_;
    return offset;
}

size_t TilingDef::Place(TilingDef& inner)
{
    const size_t offset = Place(inner.bytes_.size(), inner.alignment_, 1);
    inner_.emplace_back(&inner, offset);
    return offset;
}

void TilingDef::Seal(const char* className, size_t alignment)
{
    className_ = className;
    bytes_.resize(opforge::twin::RoundUp(bytes_.size(), alignment));
    SetDataPtr(nullptr);
}

void TilingDef::SetDataPtr(void* dataPtr)
{
    outside_ = static_cast<uint8_t*>(dataPtr);
    for (const auto& [inner, offset] : inner_) {
        inner->SetDataPtr(At(offset));
    }
}

}  // namespace optiling
