// ShapeInfo and TensorShape: shapes that a kernel attaches to tensors.
#ifndef OPFORGE_TWIN_KERNEL_SHAPE_INFO_H
#define OPFORGE_TWIN_KERNEL_SHAPE_INFO_H

#include "opforge_twin/kernel/data_format.h"
#include "opforge_twin/kernel/language.h"

namespace AscendC {

struct ShapeInfo {
    static constexpr uint32_t kMostDimensions = 8;

    ShapeInfo() = default;
    ShapeInfo(const uint8_t inputShapeDim, const uint32_t inputShape[], const uint8_t inputOriginalShapeDim,
              const uint32_t inputOriginalShape[], const DataFormat inputFormat)
        : shapeDim(inputShapeDim), originalShapeDim(inputOriginalShapeDim), dataFormat(inputFormat)
    {
        for (uint32_t dim = 0; dim < shapeDim && dim < kMostDimensions; ++dim) {
            shape[dim] = inputShape[dim];
        }
        for (uint32_t dim = 0; dim < originalShapeDim && dim < kMostDimensions; ++dim) {
            originalShape[dim] = inputOriginalShape[dim];
        }
    }
    ShapeInfo(const uint8_t inputShapeDim, const uint32_t inputShape[], const DataFormat inputFormat)
        : ShapeInfo(inputShapeDim, inputShape, inputShapeDim, inputShape, inputFormat)
    {
    }
    ShapeInfo(const uint8_t inputShapeDim, const uint32_t inputShape[])
        : ShapeInfo(inputShapeDim, inputShape, DataFormat::ND)
    {
    }

    uint8_t shapeDim = 0;
    uint8_t originalShapeDim = 0;
    uint32_t shape[kMostDimensions] = {};
    uint32_t originalShape[kMostDimensions] = {};
    DataFormat dataFormat = DataFormat::ND;
};

inline int GetShapeSize(const ShapeInfo& shapeInfo)
{
    int size = 1;
    for (uint32_t dim = 0; dim < shapeInfo.shapeDim; ++dim) {
        size *= static_cast<int>(shapeInfo.shape[dim]);
    }
    return size;
}

}  // namespace AscendC

#endif  // OPFORGE_TWIN_KERNEL_SHAPE_INFO_H
