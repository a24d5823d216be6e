// bfloat16 values on the host.
#ifndef OPDEV_BFLOAT16_H
#define OPDEV_BFLOAT16_H

#include <cstdint>

namespace op {
struct bfloat16 {
    uint16_t value = 0;

    bfloat16() = default;
    /// Rounds to nearest even.
    bfloat16(float number);
    operator float() const;
};
}  // namespace op

#endif  // OPDEV_BFLOAT16_H
