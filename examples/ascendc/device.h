// Host code that the examples share: a device with one stream, and arrays in its memory.
#ifndef EXAMPLES_ASCENDC_DEVICE_H
#define EXAMPLES_ASCENDC_DEVICE_H

#include <cstdint>
#include <vector>

#include "acl/acl.h"

class Device {
public:
    Device()
    {
        aclInit(nullptr);
        aclrtSetDevice(0);
        aclrtCreateStream(&stream_);
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
    void Wait() const { aclrtSynchronizeStream(stream_); }

private:
    aclrtStream stream_ = nullptr;
};

template <typename T>
class DeviceArray {
public:
    explicit DeviceArray(const std::vector<T>& values) : count_(values.size())
    {
        aclrtMalloc(&address_, Bytes(), ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtMemcpy(address_, Bytes(), values.data(), Bytes(), ACL_MEMCPY_HOST_TO_DEVICE);
    }
    ~DeviceArray() { aclrtFree(address_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;
    uint8_t* Address() const { return static_cast<uint8_t*>(address_); }
    std::vector<T> Values() const
    {
        std::vector<T> values(count_);
        aclrtMemcpy(values.data(), Bytes(), address_, Bytes(), ACL_MEMCPY_DEVICE_TO_HOST);
        return values;
    }

private:
    size_t Bytes() const { return count_ * sizeof(T); }

    size_t count_;
    void* address_ = nullptr;
};

#endif  // EXAMPLES_ASCENDC_DEVICE_H
