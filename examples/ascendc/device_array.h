// Arrays in device memory, for the examples.
#ifndef EXAMPLES_ASCENDC_DEVICE_ARRAY_H
#define EXAMPLES_ASCENDC_DEVICE_ARRAY_H

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "acl/acl.h"

/// Ends the program if an acl function fails.
inline void Require(aclError status, const char* what)
{
    if (status != ACL_SUCCESS) {
        std::fprintf(stderr, "%s: got the status %d, expected 0\n", what, static_cast<int>(status));
        std::exit(3);
    }
}

/// A device, its context and one stream.
class Device {
public:
    Device()
    {
        Require(aclInit(nullptr), "aclInit");
        Require(aclrtSetDevice(0), "aclrtSetDevice");
        Require(aclrtCreateStream(&stream_), "aclrtCreateStream");
    }
    ~Device()
    {
        aclrtDestroyStream(stream_);
        aclrtResetDevice(0);
        aclFinalize();
    }
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    aclrtStream Stream() const { return stream_; }
    void Wait() const { Require(aclrtSynchronizeStream(stream_), "aclrtSynchronizeStream"); }

private:
    aclrtStream stream_ = nullptr;
};

/// An array of `T` in device memory.
template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(size_t count) : bytes_(count * sizeof(T))
    {
        Require(aclrtMalloc(&data_, bytes_, ACL_MEM_MALLOC_HUGE_FIRST), "aclrtMalloc");
    }
    explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size())
    {
        Require(aclrtMemcpy(data_, bytes_, values.data(), bytes_, ACL_MEMCPY_HOST_TO_DEVICE), "aclrtMemcpy");
    }
    ~DeviceArray() { aclrtFree(data_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    uint8_t* Data() const { return static_cast<uint8_t*>(data_); }
    std::vector<T> Read() const
    {
        std::vector<T> values(bytes_ / sizeof(T));
        Require(aclrtMemcpy(values.data(), bytes_, data_, bytes_, ACL_MEMCPY_DEVICE_TO_HOST), "aclrtMemcpy");
        return values;
    }

private:
    void* data_ = nullptr;
    size_t bytes_ = 0;
};

/// Values in [-1, 1) that depend on the index only.
inline std::vector<float> Values(size_t count)
{
    std::vector<float> values(count);
    uint32_t state = 12345;
    for (float& value : values) {
        state = state * 1664525U + 1013904223U;
        value = static_cast<float>(state >> 8) / static_cast<float>(1U << 23) - 1.0F;
    }
    return values;
}

#endif
