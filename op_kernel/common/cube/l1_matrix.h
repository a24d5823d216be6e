// Matrices in L1, the operands of the cube.
#ifndef OPFORGE_OP_KERNEL_COMMON_CUBE_L1_MATRIX_H
#define OPFORGE_OP_KERNEL_COMMON_CUBE_L1_MATRIX_H

#include "kernel_operator.h"
#include "common/arithmetic.h"

namespace opforge {
namespace kernel {

/// The layout of the left and the right operand in L1 and in global memory: rows of [m, k] and rows of [n, k], which
/// are multiplied directly; or rows of [k, m] and rows of [k, n], which are transposed in the copy to L0.
enum class Operands : int32_t { kDepthInside, kDepthOutside };

/// A matrix in L1: contiguous columns of 32 bytes with `pitch` rows each.
template <typename T>
struct L1Matrix {
    AscendC::LocalTensor<T> data;
    int32_t pitch;
    int64_t begin = 0;  // element of L1; set by CubeCore

    static constexpr int32_t kUnit = static_cast<int32_t>(kUbBlockBytes / sizeof(T));  // elements per row of a column

    /// Returns the matrix starting at a row and at a column that is a multiple of kUnit.
    __aicore__ inline L1Matrix From(int64_t row, int64_t column) const
    {
        const int64_t offset = row * kUnit + column * pitch;
        return {data[static_cast<uint32_t>(offset)], pitch, begin + offset};
    }
};

enum class Operand : int32_t { kLeft, kRight };

}  // namespace kernel
}  // namespace opforge

#endif  // OPFORGE_OP_KERNEL_COMMON_CUBE_L1_MATRIX_H
