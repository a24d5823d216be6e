// The macro form of tiling data: fields with setters and getters on the host, stored in the raw tiling buffer.
#ifndef REGISTER_TILINGDATA_BASE_H
#define REGISTER_TILINGDATA_BASE_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "graph/types.h"

namespace optiling {
/// Stores the fields in declaration order with natural alignment.
class TilingDef {
public:
    TilingDef() = default;
    virtual ~TilingDef() = default;
    TilingDef(const TilingDef&) = delete;
    TilingDef& operator=(const TilingDef&) = delete;

    void SaveToBuffer(void* pdata, size_t capacity);
    size_t GetDataSize() const { return bytes_.size(); }
    const char* GetTilingClassName() const { return className_; }
    /// Moves the fields to memory of the caller; later setters write to that memory.
    void SetDataPtr(void* dataPtr);

protected:
    /// Returns the offset of a field with `count` elements of `size` bytes.
    size_t Place(size_t size, size_t alignment, size_t count);
    /// Places a nested struct of fields in this struct.
    size_t Place(TilingDef& inner);
    void Seal(const char* className, size_t alignment);
    uint8_t* At(size_t offset) { return (outside_ != nullptr ? outside_ : bytes_.data()) + offset; }
    const uint8_t* At(size_t offset) const { return (outside_ != nullptr ? outside_ : bytes_.data()) + offset; }

    size_t alignment_ = 1;

private:
    std::vector<uint8_t> bytes_;
    std::vector<std::pair<TilingDef*, size_t>> inner_;  ///< nested structs with their offsets
    uint8_t* outside_ = nullptr;
    const char* className_ = "";
};
}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(class_name)           \
    class class_name : public optiling::TilingDef { \
    public:                                         \
        class_name()                                \
        {                                           \
            Seal(#class_name, alignment_);          \
        }                                           \
        static constexpr const char* kTilingName = #class_name;

#define TILING_DATA_FIELD_DEF(data_type, field_name)                                      \
public:                                                                                   \
    void set_##field_name(data_type field_name)                                           \
    {                                                                                     \
        std::memcpy(At(field_name##Offset_), &field_name, sizeof(data_type));             \
    }                                                                                     \
    data_type get_##field_name() const                                                    \
    {                                                                                     \
        data_type value;                                                                  \
        std::memcpy(&value, At(field_name##Offset_), sizeof(data_type));                  \
        return value;                                                                     \
    }                                                                                     \
                                                                                          \
private:                                                                                  \
    static_assert(std::is_arithmetic<data_type>::value, #field_name " must be a number"); \
    size_t field_name##Offset_ = Place(sizeof(data_type), alignof(data_type), 1);

#define TILING_DATA_FIELD_DEF_ARR(arr_type, arr_size, field_name)                         \
public:                                                                                   \
    void set_##field_name(arr_type* field_name)                                           \
    {                                                                                     \
        std::memcpy(At(field_name##Offset_), field_name, sizeof(arr_type) * (arr_size));  \
    }                                                                                     \
    arr_type* get_##field_name()                                                          \
    {                                                                                     \
        return reinterpret_cast<arr_type*>(At(field_name##Offset_));                      \
    }                                                                                     \
                                                                                          \
private:                                                                                  \
    static_assert(std::is_arithmetic<arr_type>::value, #field_name " must hold numbers"); \
    size_t field_name##Offset_ = Place(sizeof(arr_type), alignof(arr_type), arr_size);

#define TILING_DATA_FIELD_DEF_STRUCT(struct_type, field_name)                                                    \
public:                                                                                                          \
    struct_type field_name;                                                                                      \
                                                                                                                 \
private:                                                                                                         \
    static_assert(std::is_base_of<optiling::TilingDef, struct_type>::value, #field_name " must be tiling data"); \
    size_t field_name##Offset_ = Place(field_name);

#define END_TILING_DATA_DEF \
    }                       \
    ;

// The twin kernel needs no registration: it uses the struct from the same header.
#define REGISTER_TILING_DATA_CLASS(op_type, class_name)                    \
    static_assert(std::is_base_of<optiling::TilingDef, class_name>::value, \
                  #class_name " is no tiling data of " #op_type);

#endif  // REGISTER_TILINGDATA_BASE_H
