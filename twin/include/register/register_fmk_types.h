// The frameworks that the parser supports.
#ifndef REGISTER_REGISTER_FMK_TYPES_H
#define REGISTER_REGISTER_FMK_TYPES_H

namespace domi {
enum FrameworkType {
    CAFFE = 0,
    MINDSPORE = 1,
    TENSORFLOW = 3,
    ANDROID_NN = 4,
    ONNX = 5,
    FRAMEWORK_RESERVED = 6,
};
}  // namespace domi

#endif  // REGISTER_REGISTER_FMK_TYPES_H
