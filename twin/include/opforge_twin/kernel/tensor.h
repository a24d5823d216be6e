// GlobalTensor and LocalTensor: typed views of global and on-chip memory.
#ifndef OPFORGE_TWIN_KERNEL_TENSOR_H
#define OPFORGE_TWIN_KERNEL_TENSOR_H

#include "opforge_twin/kernel/layout.h"
#include "opforge_twin/kernel/shape_info.h"
#include "opforge_twin/kernel/system.h"

namespace opforge::twin::kernel {

/// The element `tensor(i)`: reads and writes use the scalar unit.
template <typename Tensor, typename T>
class ElementReference {
public:
    ElementReference(const Tensor& tensor, uint64_t index) : tensor_(tensor), index_(index) {}
    OPFORGE_API operator T() const
    {
        const ComposedCall call;
        return tensor_.GetValue(index_);
    }
    OPFORGE_API const ElementReference& operator=(T value) const
    {
        const ComposedCall call;
        tensor_.SetValue(index_, value);
        return *this;
    }

private:
    const Tensor& tensor_;
    uint64_t index_;
};

/// The operands of an operator of two tensors, which the assignment of its result executes.
template <typename Operation, typename Tensor>
struct WholeTensors {
    Tensor src0;
    Tensor src1;
};

template <typename T>
constexpr void RequireShape()
{
    static_assert(!kIsTrait<T>, "TensorTrait: such tensors have no ShapeInfo");
}

/// Fails for tensors that no instruction accepts.
template <typename T>
constexpr void RequireDefaultTrait()
{
    static_assert(!kIsTrait<T> || std::is_same_v<T, AscendC::TensorTrait<PrimT<T>>>,
                  "TensorTrait: instructions and queues accept the default position and layout only");
}

}  // namespace opforge::twin::kernel

namespace AscendC {

namespace twin = opforge::twin::kernel;

template <typename T>
class GlobalTensor : public twin::TraitMembers<T> {
public:
    using PrimType = PrimT<T>;

    /// Sets a range from `buffer` to the end of the argument that contains it.
    void SetGlobalBuffer(__gm__ PrimType* buffer)
    {
        view_.address = reinterpret_cast<uintptr_t>(buffer);
        view_.begin = view_.address;
        view_.end = 0;
        view_.dtype = twin::DtypeOf<T>();
        view_.size = sizeof(PrimType);
        size_ = 0;
    }
    void SetGlobalBuffer(__gm__ PrimType* buffer, uint64_t bufferSize)
    {
        SetGlobalBuffer(buffer);
        view_.end = view_.begin + static_cast<uint64_t>(twin::BytesOf<T>(static_cast<int64_t>(bufferSize)));
        size_ = bufferSize;
    }
    const __gm__ PrimType* GetPhyAddr() const { return Pointer(0); }
    __gm__ PrimType* GetPhyAddr(const uint64_t offset) const { return Pointer(offset); }
    OPFORGE_API PrimType GetValue(const uint64_t offset) const
    {
        twin::RequireScalarAccess<PrimType>();
        return twin::FromBits<PrimType>(twin::ReadGlobal(view_, offset, {"GlobalTensor::GetValue", twin::Here()}));
    }
    OPFORGE_API void SetValue(const uint64_t offset, PrimType value) const
    {
        twin::RequireScalarAccess<PrimType>();
        twin::WriteGlobal(view_, offset, twin::ScalarBits(value), {"GlobalTensor::SetValue", twin::Here()});
    }
    twin::ElementReference<GlobalTensor, PrimType> operator()(const uint64_t offset) const { return {*this, offset}; }
    GlobalTensor operator[](const uint64_t offset) const
    {
        GlobalTensor moved(*this);
        moved.view_.address += static_cast<uint64_t>(twin::BytesOf<T>(static_cast<int64_t>(offset)));
        return moved;
    }
    uint64_t GetSize() const { return size_; }
    template <typename U>
    GlobalTensor<U> ReinterpretCast() const
    {
        GlobalTensor<U> other;
        other.SetGlobalBuffer(reinterpret_cast<__gm__ PrimT<U>*>(Pointer(0)));
        if (size_ != 0) {
            other.SetGlobalBuffer(
                reinterpret_cast<__gm__ PrimT<U>*>(Pointer(0)),
                static_cast<uint64_t>(twin::CountOf<U>(twin::BytesOf<T>(static_cast<int64_t>(size_)))));
        }
        return other;
    }
    void SetShapeInfo(const ShapeInfo& shapeInfo)
    {
        twin::RequireShape<T>();
        shape_ = shapeInfo;
    }
    ShapeInfo GetShapeInfo() const
    {
        twin::RequireShape<T>();
        return shape_;
    }
    template <CacheRwMode rwMode = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode mode)
    {
        const bool isCached = mode != CacheMode::CACHE_MODE_DISABLE;
        view_.isReadCached = rwMode == CacheRwMode::WRITE ? view_.isReadCached : isCached;
        view_.isWriteCached = rwMode == CacheRwMode::READ ? view_.isWriteCached : isCached;
    }

    const twin::GlobalView& View() const
    {
        twin::RequireDefaultTrait<T>();
        return view_;
    }

private:
    __gm__ PrimType* Pointer(uint64_t offset) const
    {
        return reinterpret_cast<__gm__ PrimType*>(static_cast<uintptr_t>(
            view_.address + static_cast<uint64_t>(twin::BytesOf<T>(static_cast<int64_t>(offset)))));
    }

    twin::GlobalView view_;
    uint64_t size_ = 0;
    ShapeInfo shape_;
};

using TTagType = int32_t;

template <typename T>
class LocalTensor : public twin::TraitMembers<T> {
public:
    using PrimType = PrimT<T>;

    LocalTensor() = default;
    explicit LocalTensor(const twin::LocalView& view, TPosition position)
        : view_(view), size_(static_cast<uint32_t>(twin::CountOf<T>(view.end - view.address))), position_(position)
    {
        view_.dtype = twin::DtypeOf<T>();
        view_.size = sizeof(PrimType);
    }
    /// A tensor of `tileSize` elements at byte `addr` of the memory of `pos`, for kernels without a TPipe.
    OPFORGE_API LocalTensor(TPosition pos, uint32_t addr, uint32_t tileSize)
        : LocalTensor(twin::ViewAt(pos, addr, twin::BytesOf<T>(tileSize), {"LocalTensor", twin::Here()}), pos)
    {
        static_assert(!is_tensorTrait<T>::value,
                      "LocalTensor: a TensorTrait gives position and size; use LocalTensor(addr)");
    }
    /// The same with the position and the layout of a TensorTrait.
    OPFORGE_API explicit LocalTensor(uint32_t addr)
        : LocalTensor(twin::ViewAt(twin::TraitPosition<T>(), addr, twin::BytesOf<T>(twin::TraitElements<T>()),
                                   {"LocalTensor", twin::Here()}),
                      twin::TraitPosition<T>())
    {
    }
    /// The same with the position of a TensorTrait; variables can give the layout.
    template <typename U>
    OPFORGE_API LocalTensor(uint32_t addr, const U& layout)
        : LocalTensor(twin::ViewAt(twin::TraitPosition<T>(), addr, twin::BytesOf<T>(layout.GetSize()),
                                   {"LocalTensor", twin::Here()}),
                      twin::TraitPosition<T>())
    {
    }
    /// Executes an operation on whole tensors, such as `dst = src0 + src1`.
    template <typename Operation, typename Tensor>
    OPFORGE_API void operator=(const twin::WholeTensors<Operation, Tensor>& sources)
    {
        const twin::ComposedCall call;
        Operation::Run(*this, sources.src0, sources.src1);
    }
    OPFORGE_API PrimType GetValue(const uint32_t offset) const
    {
        twin::RequireScalarAccess<PrimType>();
        return twin::FromBits<PrimType>(twin::ReadLocal(view_, offset, {"LocalTensor::GetValue", twin::Here()}));
    }
    template <typename S>
    OPFORGE_API void SetValue(const uint32_t index, const S value) const
    {
        twin::RequireScalarAccess<PrimType>();
        twin::WriteLocal(view_, index, twin::ScalarBits(static_cast<PrimType>(value)),
                         {"LocalTensor::SetValue", twin::Here()});
    }
    twin::ElementReference<LocalTensor, PrimType> operator()(const uint32_t offset) const { return {*this, offset}; }
    /// Returns the tensor from element `offset` on; a negative offset is reported at the first access.
    LocalTensor operator[](const int64_t offset) const
    {
        LocalTensor moved(*this);
        moved.view_.address += twin::BytesOf<T>(offset);
        return moved;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const
    {
        LocalTensor<U> other(view_, position_);
        other.SetSize(static_cast<uint32_t>(twin::CountOf<U>(twin::BytesOf<T>(size_))));
        return other;
    }
    int32_t GetPosition() const { return static_cast<int32_t>(position_); }
    void SetSize(const uint32_t size) { size_ = size; }
    uint32_t GetSize() const { return size_; }
    uint32_t GetLength() const { return static_cast<uint32_t>(twin::BytesOf<T>(size_)); }
    void SetBufferLen(uint32_t dataLen) { size_ = dataLen; }
    /// Returns the address in the memory of the tensor in bytes; the kernel cannot dereference it.
    OPFORGE_API uint64_t GetPhyAddr() const
    {
        const twin::ComposedCall call;
        return GetPhyAddr(0);
    }
    OPFORGE_API uint64_t GetPhyAddr(const uint32_t offset) const
    {
        const int64_t address = twin::AddressIn(view_, {"LocalTensor::GetPhyAddr", twin::Here()});
        return static_cast<uint64_t>(address + twin::BytesOf<T>(offset));
    }
    /// Makes this the tensor from element `offset` of `src` on.
    template <typename U>
    void SetAddrWithOffset(const LocalTensor<U>& src, uint32_t offset)
    {
        *this = src[offset].template ReinterpretCast<T>();
    }
    void SetShapeInfo(const ShapeInfo& shapeInfo)
    {
        twin::RequireShape<T>();
        shape_ = shapeInfo;
    }
    ShapeInfo GetShapeInfo() const
    {
        twin::RequireShape<T>();
        return shape_;
    }
    void SetUserTag(const TTagType tag) { tag_ = tag; }
    TTagType GetUserTag() const { return tag_; }
    /// Prints the elements, in rows of 32 bytes.
    OPFORGE_API void Print() const
    {
        const twin::ComposedCall call;
        Print(size_);
    }
    OPFORGE_API void Print(uint32_t len) const
    {
        constexpr uint32_t kColumns = 32 / sizeof(PrimType);
        const uint32_t shape[] = {(len + kColumns - 1) / kColumns, kColumns};
        twin::DumpLocal(view_, {0, 0, len, shape, 2}, {"LocalTensor::Print", twin::Here()});
    }
    OPFORGE_API int32_t ToFile(const char* fileName) const
    {
        return twin::WriteLocalFile(view_, GetLength(), fileName, {"LocalTensor::ToFile", twin::Here()}) ? 0 : -1;
    }

    const twin::LocalView& View() const
    {
        twin::RequireDefaultTrait<T>();
        return view_;
    }

private:
    twin::LocalView view_;
    uint32_t size_ = 0;
    TPosition position_ = TPosition::MAX;
    TTagType tag_ = 0;
    ShapeInfo shape_;
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_TENSOR_H
