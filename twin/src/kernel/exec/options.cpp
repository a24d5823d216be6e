#include "opforge_twin/options.h"

#include <mutex>

namespace opforge::twin {

namespace {

std::mutex lock;
Options current;

}  // namespace

Options ProcessOptions()
{
    const std::lock_guard<std::mutex> guard(lock);
    return current;
}

void SetProcessOptions(const Options& options)
{
    const std::lock_guard<std::mutex> guard(lock);
    current = options;
}

}  // namespace opforge::twin
