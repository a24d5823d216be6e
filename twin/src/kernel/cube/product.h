// Matrix products of the cube unit, on factors and sums in fractals.
//
// The order of the sum over k inside a Mmad is not documented. The twin adds in the order of k. Each product is rounded
// to float (products of half, bfloat16_t and HF32 are exact), then each sum, to nearest even. There are no fused
// operations.
#ifndef OPFORGE_TWIN_KERNEL_CUBE_PRODUCT_H
#define OPFORGE_TWIN_KERNEL_CUBE_PRODUCT_H

#include <cstdint>

#include "opforge_twin/kernel/runtime.h"

namespace opforge::twin::kernel {

/// The type that a float factor is rounded to before the multiplication.
enum class FactorRounding : uint8_t { kNone, kHf32ToEven, kHf32Truncated };

/// A mantissa of the 11 bits of HF32.
float RoundedFactor(float value, FactorRounding rounding);

struct ProductShape {
    int64_t m;
    int64_t n;
    int64_t k;
    Dtype dtype;
    FactorRounding rounding;
    int64_t kFractals;                 ///< of a row of fractals of the left factor
    bool isVector;                     ///< m is 1: the left factor is a plain vector
    const uint8_t* indices = nullptr;  ///< of a sparse right factor: it has two of four elements of k
};

/// Adds the product of `left` (L0A, Zz) and `right` (L0B, Zn) to `sums` (L0C, Nz).
void AddProduct(const ProductShape& shape, const uint8_t* left, const uint8_t* right, float* sums);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_CUBE_PRODUCT_H
