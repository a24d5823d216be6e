// Another public name of lib/matmul_intf.h.
#ifndef LIB_MATRIX_MATMUL_MATMUL_INTF_H
#define LIB_MATRIX_MATMUL_MATMUL_INTF_H

#include "lib/matmul_intf.h"

#endif  // LIB_MATRIX_MATMUL_MATMUL_INTF_H
