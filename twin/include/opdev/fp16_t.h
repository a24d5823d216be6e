// IEEE binary16 values on the host.
#ifndef OPDEV_FP16_T_H
#define OPDEV_FP16_T_H

#include <cstdint>

namespace op {
struct fp16_t {
    uint16_t val = 0;

    fp16_t() = default;
    /// Rounds to nearest even.
    fp16_t(float value);
    operator float() const;
};
}  // namespace op

#endif  // OPDEV_FP16_T_H
