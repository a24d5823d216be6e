// Another public name of lib/matmul_intf.h.
#ifndef ADV_API_MATMUL_MATMUL_INTF_H
#define ADV_API_MATMUL_MATMUL_INTF_H

#include "lib/matmul_intf.h"

#endif  // ADV_API_MATMUL_MATMUL_INTF_H
