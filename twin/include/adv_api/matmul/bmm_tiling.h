// Another public name of the Matmul tiling classes.
#ifndef ADV_API_MATMUL_BMM_TILING_H
#define ADV_API_MATMUL_BMM_TILING_H

#include "opforge_twin/host/matmul_tiling.h"

#endif  // ADV_API_MATMUL_BMM_TILING_H
