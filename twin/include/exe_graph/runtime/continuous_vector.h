// Vectors with header and elements in one memory block.
#ifndef EXE_GRAPH_RUNTIME_CONTINUOUS_VECTOR_H
#define EXE_GRAPH_RUNTIME_CONTINUOUS_VECTOR_H

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "graph/ge_error_codes.h"

namespace gert {
class ContinuousVector {
public:
    template <typename T>
    static std::unique_ptr<uint8_t[]> Create(size_t capacity, size_t& total_size)
    {
        total_size = sizeof(ContinuousVector) + capacity * sizeof(T);
        std::unique_ptr<uint8_t[]> block(new uint8_t[total_size]());
        (new (block.get()) ContinuousVector())->Init(capacity);
        return block;
    }
    template <typename T>
    static std::unique_ptr<uint8_t[]> Create(const size_t capacity)
    {
        size_t totalSize = 0;
        return Create<T>(capacity, totalSize);
    }

    void Init(const size_t capacity);
    size_t GetSize() const { return size_; }
    /// Returns GRAPH_FAILED if the size exceeds the capacity.
    ge::graphStatus SetSize(const size_t size);
    size_t GetCapacity() const { return capacity_; }
    const void* GetData() const { return this + 1; }
    void* MutableData() { return this + 1; }

private:
    size_t capacity_ = 0;
    size_t size_ = 0;
};

template <typename T>
class TypedContinuousVector : public ContinuousVector {
public:
    T* MutableData() { return static_cast<T*>(ContinuousVector::MutableData()); }
    const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
};

/// A list of lists. The twin stores each inner vector in a separate memory block.
class ContinuousVectorVector {
public:
    void Init(const size_t capacity);
    /// Returns null if the capacity is used up.
    template <typename T>
    ContinuousVector* Add(size_t inner_vector_capacity)
    {
        return size_ < capacity_ ? Keep(ContinuousVector::Create<T>(inner_vector_capacity)) : nullptr;
    }
    const ContinuousVector* Get(const size_t index) const;
    size_t GetSize() const { return size_; }

private:
    ContinuousVector* Keep(std::unique_ptr<uint8_t[]> block);

    size_t capacity_ = 0;
    size_t size_ = 0;
    std::unique_ptr<std::unique_ptr<uint8_t[]>[]> blocks_;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_CONTINUOUS_VECTOR_H
