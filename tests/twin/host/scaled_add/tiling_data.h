// Values that the tiling function of ScaledAdd records, and values for its kernel.
#ifndef SCALED_ADD_TILING_DATA_H
#define SCALED_ADD_TILING_DATA_H

#include <cstdint>

struct ScaledAddTilingData {
    int64_t rows = 0;
    int64_t width = 0;
    int64_t inputInstances = 0;
    int64_t secondInstanceRank = 0;  ///< rank of GetInputShape(1) for any parameter; -1: no such instance
    int64_t hasBias = 0;
    int64_t biasDtype = 0;
    int64_t limitCount = 0;  ///< number of readable values of `limit`; -1: not on the host; -2: absent
    int64_t limitSum = 0;
    int64_t axesSum = 0;
    int64_t modeLength = 0;
    int64_t vectorCores = 0;
    float factor = 0.0F;
    uint32_t isOverrun = 0;
};

#endif  // SCALED_ADD_TILING_DATA_H
