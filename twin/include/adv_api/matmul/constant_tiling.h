// Another public name of the configurations of Matmul.
#ifndef ADV_API_MATMUL_CONSTANT_TILING_H
#define ADV_API_MATMUL_CONSTANT_TILING_H

#include "opforge_twin/kernel/matmul/static_tiling.h"

#endif  // ADV_API_MATMUL_CONSTANT_TILING_H
