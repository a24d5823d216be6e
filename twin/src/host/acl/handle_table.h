// The live objects of one type that applications access through pointers.
#ifndef OPFORGE_TWIN_HOST_ACL_HANDLE_TABLE_H
#define OPFORGE_TWIN_HOST_ACL_HANDLE_TABLE_H

#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

namespace opforge::twin::host {

/// Creates and destroys objects, and checks whether an object is live. The memory of recently destroyed objects is
/// kept, so that a stale pointer does not soon become valid again.
template <typename T>
class HandleTable {
public:
    /// One instance per type and process. It is never destroyed, because other threads can outlive main.
    static HandleTable& Instance()
    {
        static auto* table = new HandleTable();
        return *table;
    }

    template <typename... Arguments>
    T* Create(Arguments&&... arguments)
    {
        T* const object = new (::operator new(sizeof(T))) T(std::forward<Arguments>(arguments)...);
        const std::lock_guard<std::mutex> guard(lock_);
        live_.emplace(object, std::shared_ptr<T>(object, [this](T* ended) { Retire(ended); }));
        return object;
    }

    bool IsLive(const void* object) const { return Share(object) != nullptr; }

    /// Returns the object, or null if it is not live. The result keeps the object alive even if it is destroyed
    /// concurrently.
    std::shared_ptr<T> Share(const void* object) const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        const auto found = live_.find(object);
        return found == live_.end() ? nullptr : found->second;
    }

    /// Returns false if the object is not live: already destroyed, or never created here.
    bool Destroy(const T* object)
    {
        std::shared_ptr<T> last;  // destroyed after the lock is released
        const std::lock_guard<std::mutex> guard(lock_);
        const auto found = live_.find(object);
        if (found == live_.end()) {
            return false;
        }
        last = std::move(found->second);
        live_.erase(found);
        return true;
    }

    std::vector<std::shared_ptr<T>> Live() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        std::vector<std::shared_ptr<T>> objects;
        for (const auto& item : live_) {
            objects.push_back(item.second);
        }
        return objects;
    }

    size_t Count() const
    {
        const std::lock_guard<std::mutex> guard(lock_);
        return live_.size();
    }

    /// Forgets all objects without their destructors.
    void Abandon() { abandoned_.push_back(std::exchange(live_, {})); }

private:
    static constexpr size_t kRetired = 4096;

    void Retire(T* object)
    {
        object->~T();
        const std::lock_guard<std::mutex> guard(lock_);
        retired_.push_back(object);
        if (retired_.size() > kRetired) {
            ::operator delete(retired_.front());
            retired_.pop_front();
        }
    }

    mutable std::mutex lock_;
    std::unordered_map<const void*, std::shared_ptr<T>> live_;
    std::deque<void*> retired_;
    std::deque<std::unordered_map<const void*, std::shared_ptr<T>>> abandoned_;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_HANDLE_TABLE_H
