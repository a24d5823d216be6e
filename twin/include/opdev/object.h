// The base class of the objects of aclnn functions.
#ifndef OPDEV_OBJECT_H
#define OPDEV_OBJECT_H

namespace op {
class Object {};
}  // namespace op

#endif  // OPDEV_OBJECT_H
