// Another public name of the Matmul classes.
#ifndef ADV_API_MATMUL_MATMUL_H
#define ADV_API_MATMUL_MATMUL_H

#include "opforge_twin/kernel/matmul/matmul.h"

#endif  // ADV_API_MATMUL_MATMUL_H
