// The constants of the time model for the SoC of the launch, from twin/npu_model.json.
#ifndef OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H
#define OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H

#include <string>

namespace opforge::twin::time_model {

#define OPFORGE_TIME_CONSTANT(symbol, name, value) inline double symbol = value;
#include "time_model.inc"
#undef OPFORGE_TIME_CONSTANT

/// Sets the constants of a SoC; OPFORGE_TWIN_CONSTANTS ("name=value,SoC:name=value") replaces some of them for a
/// calibration. Launches that run at the same time have the same SoC.
void Select(const std::string& soc);

}  // namespace opforge::twin::time_model

#endif  // OPFORGE_TWIN_KERNEL_TIMING_TIME_MODEL_H
