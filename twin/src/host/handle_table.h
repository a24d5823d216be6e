// The live objects of one kind that applications hold pointers to.
#ifndef OPFORGE_TWIN_HOST_HANDLE_TABLE_H
#define OPFORGE_TWIN_HOST_HANDLE_TABLE_H

#include <cstddef>
#include <deque>
#include <mutex>
#include <new>
#include <unordered_set>
#include <utility>
#include <vector>

namespace opforge::twin::host {

/// Creates and destroys objects, and tells live ones from destroyed ones. The memory of the last destroyed objects is
/// kept back, so that a stale pointer does not become valid again soon.
template <typename T>
class HandleTable {
public:
    /// One per kind and process; never destroyed, since other threads may live longer than main.
    static HandleTable& Instance()
    {
        static auto* table = new HandleTable();
        return *table;
    }

    template <typename... Arguments>
    T* Create(Arguments&&... arguments)
    {
        void* memory = ::operator new(sizeof(T));
        T* object = new (memory) T(std::forward<Arguments>(arguments)...);
        const std::lock_guard<std::mutex> guard(lock_);
        live_.insert(object);
        return object;
    }

    bool IsLive(const void* object) const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return live_.count(object) != 0;
    }

    /// False when the object is not live: it was destroyed before, or never was one.
    bool Destroy(const T* object)
    {
        {
            const std::lock_guard<std::mutex> guard(lock_);
            if (live_.erase(object) == 0) {
                return false;
            }
        }
        object->~T();
        const std::lock_guard<std::mutex> guard(lock_);
        retired_.push_back(const_cast<T*>(object));
        if (retired_.size() > kRetired) {
            ::operator delete(retired_.front());
            retired_.pop_front();
        }
        return true;
    }

    std::vector<T*> Live() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        std::vector<T*> objects;
        for (const void* object : live_) {
            objects.push_back(static_cast<T*>(const_cast<void*>(object)));
        }
        return objects;
    }

    size_t Count() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return live_.size();
    }

private:
    static constexpr size_t kRetired = 4096;

    mutable std::mutex lock_;
    std::unordered_set<const void*> live_;
    std::deque<void*> retired_;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_HANDLE_TABLE_H
