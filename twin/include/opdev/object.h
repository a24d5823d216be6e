// The base of everything that aclnn functions hand around.
#ifndef OPDEV_OBJECT_H
#define OPDEV_OBJECT_H

namespace op {
class Object {};
}  // namespace op

#endif  // OPDEV_OBJECT_H
