// Formats of tensors. Kernels and host code use these names.
#ifndef OPFORGE_TWIN_KERNEL_DATA_FORMAT_H
#define OPFORGE_TWIN_KERNEL_DATA_FORMAT_H

#include <cstdint>

namespace AscendC {

enum class DataFormat : uint8_t { ND = 0, NZ, NCHW, NC1HWC0, NHWC, NCDHW, NDC1HWC0, FRACTAL_Z_3D };

struct TransDataConfig {
    DataFormat srcFormat;
    DataFormat dstFormat;
};

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_DATA_FORMAT_H
