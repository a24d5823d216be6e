// Common parts of programs that check plans: random numbers, platforms, and the report of violations.
#ifndef OPFORGE_TESTS_OP_HOST_PLAN_CHECK_H
#define OPFORGE_TESTS_OP_HOST_PLAN_CHECK_H

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "common/plan.h"

namespace opforge::check {

inline constexpr int64_t kRealUbBytes = 196352;
inline constexpr int kShownFailures = 5;

class Dice {
public:
    explicit Dice(uint64_t seed) : engine_(seed) {}

    int64_t Between(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }

    template <typename T, size_t count>
    T OneOf(const T (&values)[count])
    {
        return values[static_cast<size_t>(Between(0, static_cast<int64_t>(count) - 1))];
    }

    /// Any magnitude up to 2^bits, often next to a power of two.
    int64_t Size(int64_t bits)
    {
        const int64_t power = int64_t{1} << Between(0, bits);
        return Between(0, 2) == 0 ? std::max<int64_t>(0, power + Between(-2, 2)) : Between(0, power);
    }

    Platform Device()
    {
        constexpr int64_t kCores[] = {1, 2, 7, 20, 40, 48, 64};
        constexpr int64_t kUbBytes[] = {kRealUbBytes, kRealUbBytes, 262144, 131072, 65536};
        Platform platform;
        platform.coreNum = OneOf(kCores);
        platform.ubBytes = OneOf(kUbBytes);
        return platform;
    }

private:
    std::mt19937_64 engine_;
};

/// Counts violations and prints the first few.
class Guarantees {
public:
    /// Whether the guarantee holds, or enough violations were printed: otherwise, the caller prints the problem.
    bool Holds(bool holds, const char* guarantee)
    {
        if (holds || ++failures_ > kShownFailures) {
            return true;
        }
        std::printf("violated: %s\n  ", guarantee);
        return false;
    }

    int failures_ = 0;
};

/// Runs `checkOne(dice)` for COUNT problems; arguments of the program: COUNT SEED.
template <typename CheckOne>
int Main(int argc, char** argv, const Guarantees& guarantees, CheckOne checkOne)
{
    if (argc != 3) {
        std::fprintf(stderr, "usage: %s COUNT SEED\n", argv[0]);
        return 2;
    }
    Dice dice(std::strtoull(argv[2], nullptr, 10));
    const long long count = std::atoll(argv[1]);
    for (long long index = 0; index < count; ++index) {
        checkOne(dice);
    }
    std::printf("%lld problems, %d violated guarantees\n", count, guarantees.failures_);
    return guarantees.failures_ == 0 ? 0 : 1;
}

}  // namespace opforge::check

#endif  // OPFORGE_TESTS_OP_HOST_PLAN_CHECK_H
