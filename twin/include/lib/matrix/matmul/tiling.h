// Another public name of the configurations of Matmul.
#ifndef LIB_MATRIX_MATMUL_TILING_H
#define LIB_MATRIX_MATMUL_TILING_H

#include "opforge_twin/kernel/matmul/static_tiling.h"

#endif  // LIB_MATRIX_MATMUL_TILING_H
