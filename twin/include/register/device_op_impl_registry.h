// The registration of a tiling function that runs on the device with CANN. The twin calls it on the host.
#ifndef REGISTER_DEVICE_OP_IMPL_REGISTRY_H
#define REGISTER_DEVICE_OP_IMPL_REGISTRY_H

#include "register/op_impl_registry.h"

#define DEVICE_IMPL_OP_OPTILING(op_type) IMPL_OP(op_type)

#endif  // REGISTER_DEVICE_OP_IMPL_REGISTRY_H
