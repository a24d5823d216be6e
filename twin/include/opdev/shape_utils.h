// Conversion of shapes to vectors, and broadcasting.
#ifndef OPDEV_SHAPE_UTILS_H
#define OPDEV_SHAPE_UTILS_H

#include <cstdint>

#include "opdev/common_types.h"

namespace op {
void ToShape(const op::ShapeVector& shapeVector, op::Shape& shape);
void ToShape(const int64_t* dims, uint64_t dimNum, op::Shape& shape);
ShapeVector ToShapeVector(const op::Shape& shape);
bool CheckBroadcastShape(const op::Shape& self, const op::Shape& other);
/// Returns false and leaves `broadcastShape` unchanged if the shapes cannot be broadcast.
bool BroadcastInferShape(const op::Shape& self, const op::Shape& other, op::Shape& broadcastShape);
}  // namespace op

#endif  // OPDEV_SHAPE_UTILS_H
