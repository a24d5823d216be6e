// The constants of the time model, as twin/npu_model.json states them.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H
#define OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H

namespace opforge::twin::time_model {

#include "time_model.inc"

}  // namespace opforge::twin::time_model

#endif  // OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H
