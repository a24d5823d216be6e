#include "host/acl/device_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include "opforge_twin/arithmetic.h"
#include "host/acl/stream_order.h"
#include "kernel/exec/levels.h"
#include "kernel/exec/text.h"
#include "opforge_twin/options.h"

namespace opforge::twin::host {

namespace {

using kernel::Text;

/// Fills with a pattern that is finite and huge as half, bfloat16, float, double and int32. A comparison that accepts a
/// NaN finds it. Words differ from their neighbours, and the free bits differ between runs.
void Fill(uint8_t* data, size_t bytes)
{
    static std::atomic<uint32_t> count{0};
    const uint64_t seed = ProcessOptions().seed;
    const auto now = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
    auto bits = static_cast<uint32_t>(((seed != 0 ? seed : now) + ++count) * 0x9E3779B97F4A7C15ULL >> 32);
    std::array<uint32_t, 1024> block;
    for (uint32_t& word : block) {
        word = 0x7B407B00U | (bits & 0x003F00FFU);
        bits += 0x9E3779B9U;
    }
    for (size_t at = 0; at < bytes; at += sizeof(block)) {
        std::memcpy(data + at, block.data(), std::min(sizeof(block), bytes - at));
    }
}

std::string Hex(uintptr_t address)
{
    char text[32];
    std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(address));
    return text;
}

/// Memory that can be mapped at several addresses; a mapping keeps it.
struct SharedPages {
    explicit SharedPages(size_t bytes)
    {
        if (bytes != 0) {
            file = OpenMemoryFile("device memory");
        }
        if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
            close(file);
            file = -1;
        }
    }
    ~SharedPages()
    {
        if (file >= 0) {
            close(file);
        }
    }
    SharedPages(const SharedPages&) = delete;
    SharedPages& operator=(const SharedPages&) = delete;

    int file = -1;
};

}  // namespace

int OpenMemoryFile(const char* name)
{
    const int file = memfd_create(name, MFD_CLOEXEC);
    if (file >= 0) {
        return file;
    }
    const char* const folder = std::getenv("TMPDIR");  // files in memory are not permitted
    return open(folder != nullptr ? folder : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

void DeviceAllocation::Release::operator()(uint8_t* data) const
{
    if (mapped != 0) {
        munmap(data, mapped);
    } else {
        ::operator delete(data, std::align_val_t(kAlignment));
    }
}

DeviceMemory& DeviceMemory::Instance()
{
    static auto* memory = new DeviceMemory();
    return *memory;
}

DeviceMemory::DeviceMemory()
{
    for (size_t bytes = size_t{1} << 40; bytes >= kTotalBytes * 2; bytes /= 2) {
        void* range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range != MAP_FAILED) {
            begin_ = reinterpret_cast<uintptr_t>(range);
            end_ = begin_ + bytes;
            next_ = begin_ + kPage;
            return;
        }
    }
}

uintptr_t DeviceMemory::FindGap(size_t bytes)
{
    // Search after the last allocation first, then from the start of the range. A wide gap between allocations
    // separates an access outside one of them from accesses of the next.
    for (const size_t gap : {kWideGap, kPage}) {
        const size_t needed = RoundUp(bytes, kPage) + gap;
        for (const uintptr_t start : {next_, begin_ + kPage}) {
            uintptr_t candidate = start;
            for (auto after = live_.lower_bound(start); after != live_.end() && after->first - candidate < needed;
                 ++after) {
                candidate = RoundUp(after->first + after->second->bytes, kPage) + gap;
            }
            if (candidate < end_ && end_ - candidate >= needed) {
                next_ = candidate + needed;
                return candidate;
            }
        }
    }
    return 0;
}

void* DeviceMemory::Allocate(size_t bytes)
{
    if (begin_ == 0 || bytes > FreeBytes()) {
        return nullptr;
    }
    auto allocation = std::make_shared<DeviceAllocation>();
    allocation->bytes = bytes;
    const size_t mapped = RoundUp(std::max<size_t>(bytes, 1), kPage);
    const SharedPages pages(isReadable_ ? mapped : 0);
    if (isReadable_) {
        void* const content = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, pages.file, 0);
        allocation->content = std::unique_ptr<uint8_t, DeviceAllocation::Release>(
            content == MAP_FAILED ? nullptr : static_cast<uint8_t*>(content), DeviceAllocation::Release(mapped));
    } else {
        allocation->content.reset(
            static_cast<uint8_t*>(::operator new(bytes, std::align_val_t(kAlignment), std::nothrow)));
    }
    if (allocation->content == nullptr) {
        return nullptr;
    }
    Fill(allocation->content.get(), bytes);
    const Level level = ProcessOptions().level;
    if (isReadable_ && level != Level::kFast) {
        allocation->written = std::make_shared<kernel::WrittenBytes>(bytes);
        allocation->written->Mark(0, kernel::kUnwrittenMemory.Has(level) ? 0 : bytes);
    }
    const std::lock_guard<std::mutex> guard(lock_);
    const uintptr_t address = bytes > kTotalBytes - used_ ? 0 : FindGap(bytes);
    if (address == 0) {
        return nullptr;
    }
    allocation->begin = address;
    if (isReadable_) {
        // A second mapping of the same pages.
        void* const second = reinterpret_cast<void*>(address);
        if (mmap(second, mapped, PROT_NONE, MAP_SHARED | MAP_FIXED, pages.file, 0) == MAP_FAILED) {
            return nullptr;
        }
    }
    live_.emplace(address, std::move(allocation));
    used_ += bytes;
    return reinterpret_cast<void*>(address);
}

bool DeviceMemory::Free(void* address, bool mayBeUsed, std::string& problem)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto found = live_.find(reinterpret_cast<uintptr_t>(address));
    if (found == live_.end()) {
        problem = Describe(reinterpret_cast<uintptr_t>(address), 0);
        if (problem.empty()) {
            problem = Text(Hex(reinterpret_cast<uintptr_t>(address)), " lies inside an allocation; free its start");
        }
        return false;
    }
    if (found->second.use_count() > 1 && !mayBeUsed) {
        problem = Text(Hex(found->first), " is used by a task that runs; synchronise its stream before freeing");
        return false;
    }
    StreamOrder::Instance().Use(StreamOrder::kFree, *found->second, ByteUse::kWrite, {{0, found->second->bytes}});
    constexpr size_t kRemembered = 4096;
    freed_.emplace_back(found->first, found->second->bytes);
    if (freed_.size() > kRemembered) {
        freed_.pop_front();
    }
    used_ -= found->second->bytes;
    found->second->isFreed = true;
    Forget(*found->second);
    live_.erase(found);
    return true;
}

std::string DeviceMemory::Describe(uintptr_t address, uint64_t bytes) const
{
    if (address < begin_ || address >= end_) {
        return Text(Hex(address), " is no device memory; expected a pointer from aclrtMalloc");
    }
    const auto after = live_.upper_bound(address);
    if (after != live_.begin()) {
        const DeviceAllocation& allocation = *std::prev(after)->second;
        const uint64_t offset = address - allocation.begin;
        if (offset < allocation.bytes && bytes > allocation.bytes - offset) {
            return Text("bytes ", offset, " to ", offset + bytes, " of an allocation of ", allocation.bytes, " bytes (",
                        Hex(allocation.begin), ")");
        }
        if (offset < allocation.bytes || (offset == allocation.bytes && bytes == 0)) {
            return {};
        }
    }
    for (auto old = freed_.rbegin(); old != freed_.rend(); ++old) {
        if (address >= old->first && address - old->first < std::max<size_t>(old->second, 1)) {
            return Text(Hex(address), " was freed before");
        }
    }
    return Text(Hex(address), " lies between the allocations of the device");
}

bool DeviceMemory::Resolve(const void* address, uint64_t bytes, DeviceSpan& span, std::string& problem)
{
    const std::lock_guard<std::mutex> guard(lock_);
    const auto number = reinterpret_cast<uintptr_t>(address);
    problem = Describe(number, bytes);
    if (!problem.empty()) {
        return false;
    }
    const auto found = std::prev(live_.upper_bound(number));
    span.allocation = found->second;
    span.data = found->second->content.get() + (number - found->first);
    return true;
}

void DeviceMemory::Forget(const DeviceAllocation& allocation) const
{
    void* const range = reinterpret_cast<void*>(allocation.begin);
    const size_t mapped = RoundUp(std::max<size_t>(allocation.bytes, 1), kPage);
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    if (isReadable_ && mmap(range, mapped, PROT_NONE, flags, -1, 0) == MAP_FAILED) {
        mprotect(range, mapped, PROT_NONE);  // the pages stay, without access
    }
}

void DeviceMemory::Open(const DeviceAllocation& allocation, bool isOpen, bool isWritable)
{
    const std::lock_guard<std::mutex> guard(lock_);
    Users& users = users_[allocation.begin];
    users.readers += isOpen ? 1 : -1;
    users.writers += !isWritable ? 0 : isOpen ? 1 : -1;
    const int rights = users.readers == 0 ? PROT_NONE : users.writers != 0 ? PROT_READ | PROT_WRITE : PROT_READ;
    mprotect(reinterpret_cast<void*>(allocation.begin), RoundUp(std::max<size_t>(allocation.bytes, 1), kPage), rights);
    if (users.readers == 0) {
        users_.erase(allocation.begin);
    }
}

bool DeviceMemory::IsDevice(const void* address) const
{
    const auto number = reinterpret_cast<uintptr_t>(address);
    return number >= begin_ && number < end_;
}

size_t DeviceMemory::FreeBytes() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return HasAddresses() ? kTotalBytes - used_ : 0;
}

size_t DeviceMemory::LiveCount() const
{
    const std::lock_guard<std::mutex> guard(lock_);
    return live_.size();
}

void DeviceMemory::Clear()
{
    const std::lock_guard<std::mutex> guard(lock_);
    for (const auto& [begin, allocation] : live_) {
        allocation->isFreed = true;
        StreamOrder::Instance().Forget(begin);
        Forget(*allocation);
    }
    live_.clear();
    used_ = 0;
}

}  // namespace opforge::twin::host
