// Another public name of the Matmul classes.
#ifndef LIB_MATRIX_MATMUL_MATMUL_H
#define LIB_MATRIX_MATMUL_MATMUL_H

#include "opforge_twin/kernel/matmul/matmul.h"

#endif  // LIB_MATRIX_MATMUL_MATMUL_H
