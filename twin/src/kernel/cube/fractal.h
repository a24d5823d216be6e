// Fractals: blocks of 16 rows of 32 bytes, the matrix format of cube cores. In L0C: 16 rows of 16 floats.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_FRACTAL_H
#define OPFORGE_TWIN_KERNEL_CUBE_FRACTAL_H

#include <cstdint>

namespace opforge::twin::kernel {

inline constexpr int64_t kFractalRows = 16;
/// The columns of a fractal that the cube unit stores: pairs of 1-byte types are merged, a split float is two.
constexpr int64_t StoredColumns(bool isSplit, int64_t size)
{
    return isSplit ? kFractalRows / 2 : size == 1 ? 2 * kFractalRows : kFractalRows;
}
inline constexpr int64_t kFractalBytes = 512;
inline constexpr int64_t kBytesPerIndexByte = 4;  ///< of a sparse factor: an element of int8_t has an index of two bits
inline constexpr int64_t kIndexBytes = kFractalBytes / kBytesPerIndexByte;  ///< the indices of a fractal
inline constexpr int64_t kSumRowBytes = 64;                                 ///< 16 float: a row of a fractal of L0C
inline constexpr int64_t kSumFractalBytes = 1024;                           ///< of L0C

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_CUBE_FRACTAL_H
