// ListTensorDesc: the list of tensors that a dynamic input passes to a kernel.
#ifndef OPFORGE_TWIN_KERNEL_LIST_TENSOR_H
#define OPFORGE_TWIN_KERNEL_LIST_TENSOR_H

#include "opforge_twin/kernel/system.h"
#include "opforge_twin/kernel/tensor.h"

namespace AscendC {

class ListTensorDesc;

template <class T>
class TensorDesc {
public:
    /// Sets the array to which GetDesc writes the shape.
    void SetShapeAddr(uint64_t* shapePtr) { shape_ = shapePtr; }
    uint64_t GetDim() const { return dim_; }
    uint64_t GetIndex() const { return index_; }
    uint64_t GetShape(uint32_t offset) const { return shape_[offset]; }
    __gm__ T* GetDataPtr() const { return reinterpret_cast<__gm__ T*>(static_cast<uintptr_t>(data_)); }
    GlobalTensor<T> GetDataObj() const
    {
        GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(GetDataPtr());
        return tensor;
    }

private:
    friend class ListTensorDesc;
    uint64_t* shape_ = nullptr;
    uint64_t dim_ = 0;
    uint64_t index_ = 0;
    uint64_t data_ = 0;
};

/// The memory starts with the byte offset of the addresses. Before them, each tensor has a word with its number of
/// dimensions (low half) and its index (high half), and a word for each dimension.
class ListTensorDesc {
public:
    ListTensorDesc() = default;
    OPFORGE_API explicit ListTensorDesc(__gm__ void* data, uint32_t length = 0xFFFFFFFF,
                                        uint32_t shapeSize = 0xFFFFFFFF)
    {
        const twin::ComposedCall call;
        Init(data, length, shapeSize);
    }
    OPFORGE_API void Init(__gm__ void* data, uint32_t length = 0xFFFFFFFF, uint32_t shapeSize = 0xFFFFFFFF)
    {
        const twin::Call call{"ListTensorDesc", twin::Here()};
        begin_ = reinterpret_cast<uintptr_t>(data);
        pointers_ = begin_ + Word(begin_, call);
        if (length != 0xFFFFFFFF) {
            twin::Field("offset of the addresses", static_cast<int64_t>(pointers_ - begin_), 8, length, call);
        }
        size_ = 0;
        for (uint64_t at = begin_ + 8; at < pointers_; at += 8 * (1 + (Word(at, call) & 0xFFFFFFFF))) {
            ++size_;
        }
        if (shapeSize != 0xFFFFFFFF) {
            twin::Field("shapeSize", shapeSize, size_, size_, call);
        }
    }
    template <class T>
    OPFORGE_API void GetDesc(TensorDesc<T>& desc, uint32_t index)
    {
        const twin::Call call{"ListTensorDesc", twin::Here()};
        RequireIndex(index, call);
        uint64_t at = begin_ + 8;
        for (uint32_t tensor = 0; tensor < index; ++tensor) {
            at += 8 * (1 + (Word(at, call) & 0xFFFFFFFF));
        }
        desc.dim_ = Word(at, call) & 0xFFFFFFFF;
        desc.index_ = Word(at, call) >> 32;
        for (uint64_t dim = 0; dim < desc.dim_; ++dim) {
            desc.shape_[dim] = Word(at + 8 + 8 * dim, call);
        }
        desc.data_ = Word(pointers_ + uint64_t{8} * index, call);
    }
    template <class T>
    OPFORGE_API __gm__ T* GetDataPtr(uint32_t index)
    {
        const twin::Call call{"ListTensorDesc", twin::Here()};
        RequireIndex(index, call);
        return reinterpret_cast<__gm__ T*>(static_cast<uintptr_t>(Word(pointers_ + uint64_t{8} * index, call)));
    }
    uint32_t GetSize() const { return size_; }

private:
    static uint64_t Word(uint64_t address, const twin::Call& call)
    {
        uint64_t word;
        twin::ReadGlobalBytes(&word, address, sizeof(word), call);
        return word;
    }
    void RequireIndex(uint32_t index, const twin::Call& call) const
    {
        twin::Field("index", index, 0, static_cast<int64_t>(size_) - 1, call);
    }

    uint64_t begin_ = 0;
    uint64_t pointers_ = 0;
    uint32_t size_ = 0;
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_LIST_TENSOR_H
