// Vector types of aclnn code. CANN stores the first N elements without heap memory; the twin uses std::vector.
#ifndef OPDEV_FAST_VECTOR_H
#define OPDEV_FAST_VECTOR_H

#include <cstddef>
#include <vector>

namespace op {
template <typename T, size_t N = 8>
using FVector = std::vector<T>;
}  // namespace op

#endif  // OPDEV_FAST_VECTOR_H
