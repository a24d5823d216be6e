// The buffer for the tiling data of a kernel.
#ifndef EXE_GRAPH_RUNTIME_TILING_DATA_H
#define EXE_GRAPH_RUNTIME_TILING_DATA_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>

#include "graph/types.h"

namespace gert {
class TilingData {
public:
    static std::unique_ptr<uint8_t[]> CreateCap(const size_t cap_size);
    static ge::graphStatus CalcTotalSize(const size_t cap_size, size_t& total_size);

    void Init(const size_t cap_size, void* const data);
    size_t GetCapacity() const { return capacity_; }
    size_t GetDataSize() const { return dataSize_; }
    void SetDataSize(const size_t size) { dataSize_ = size; }
    void* GetData() { return data_; }
    const void* GetData() const { return data_; }

    /// Returns GRAPH_FAILED if the capacity is too small.
    template <typename T, typename std::enable_if<std::is_standard_layout<T>::value, int>::type = 0>
    ge::graphStatus Append(const T& data)
    {
        return Append(&data, 1);
    }
    template <typename T, typename std::enable_if<std::is_standard_layout<T>::value, int>::type = 0>
    ge::graphStatus Append(const T* data, size_t append_num)
    {
        void* const place = Expand(sizeof(T) * append_num);
        if (place == nullptr) {
            return ge::GRAPH_FAILED;
        }
        std::memcpy(place, data, sizeof(T) * append_num);
        return ge::GRAPH_SUCCESS;
    }
    /// Returns the next `size` bytes, or null.
    void* Expand(size_t size);

private:
    size_t capacity_ = 0;
    size_t dataSize_ = 0;
    void* data_ = nullptr;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_TILING_DATA_H
