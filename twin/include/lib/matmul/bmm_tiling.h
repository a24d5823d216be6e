// Another public name of the Matmul tiling classes.
#ifndef LIB_MATMUL_BMM_TILING_H
#define LIB_MATMUL_BMM_TILING_H

#include "opforge_twin/host/matmul_tiling.h"

#endif  // LIB_MATMUL_BMM_TILING_H
