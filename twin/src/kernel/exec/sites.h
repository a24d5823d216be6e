// Numbers for source locations in the kernel. Records of accesses store the numbers to stay small.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_SITES_H
#define OPFORGE_TWIN_KERNEL_EXEC_SITES_H

#include <array>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "kernel/memory/access.h"

namespace opforge::twin::kernel {

/// An operand of an instruction at one source location.
struct Site {
    const char* name = "";
    Location at;
    const char* operand = "";
};

/// The source locations of a launch.
class Sites {
public:
    static constexpr uint32_t kMost = 4095;  ///< later ones share the last number

    uint32_t NumberOf(const Site& site);
    Site At(uint32_t number) const;

private:
    mutable std::mutex mutex_;
    std::map<std::tuple<const char*, const void*, const char*>, uint32_t> numbers_;
    std::vector<Site> sites_;
};

/// Caches the numbers of locations for one block, without locking the launch in most cases.
class SiteCache {
public:
    explicit SiteCache(Sites& sites) : sites_(sites) {}
    uint32_t NumberOf(const Site& site);

private:
    struct Known {
        Site site;
        uint32_t number = 0;
    };

    Sites& sites_;
    std::array<Known, 64> known_;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_SITES_H
