#include "kernel/cube/product.h"

#include <array>
#include <cstring>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/cube/fractal.h"
#include "kernel/vector/numbers.h"

namespace opforge::twin::kernel {

namespace {

using Eight = float __attribute__((vector_size(32)));

constexpr int64_t kTileRows = 6;
constexpr uint32_t kHf32Dropped = 0xFFF;  // bits of a float that HF32 does not have

Eight LoadEight(const float* from)
{
    Eight value;
    std::memcpy(&value, from, sizeof(value));
    return value;
}

void StoreEight(float* to, const Eight& value)
{
    std::memcpy(to, &value, sizeof(value));
}

/// The row of a fractal in float.
template <typename T>
void WidenRow(const uint8_t* from, float* to, FactorRounding rounding)
{
    constexpr int64_t count = 32 / static_cast<int64_t>(sizeof(T));
#ifdef __F16C__
    if constexpr (std::is_same_v<T, half>) {
        for (int64_t done = 0; done < count; done += 8) {
            __m128i bits;
            std::memcpy(&bits, from + done * 2, sizeof(bits));
            _mm256_storeu_ps(to + done, _mm256_cvtph_ps(bits));
        }
        return;
    }
#endif
    for (int64_t index = 0; index < count; ++index) {
        const float value = Load<T>(from + index * static_cast<int64_t>(sizeof(T)));
        to[index] = std::is_same_v<T, float> ? RoundedFactor(value, rounding) : value;
    }
}

/// The left factor by rows of `pitch`, a multiple of a fractal's width.
template <typename T>
void WidenLeft(const ProductShape& shape, const uint8_t* from, float* to, int64_t pitch)
{
    constexpr int64_t c0 = 32 / static_cast<int64_t>(sizeof(T));
    for (int64_t row = 0; row < shape.m; ++row) {
        for (int64_t column = 0; column < shape.k; column += c0) {
            const int64_t fractal = row / kFractalRows * shape.kFractals + column / c0;
            const uint8_t* source =
                shape.isVector ? from + column / c0 * 32 : from + fractal * kFractalBytes + row % kFractalRows * 32;
            WidenRow<T>(source, to + row * pitch + column, shape.rounding);
        }
    }
}

/// A column of fractals of the right factor as rows of 16 for each k.
template <typename T>
void WidenRight(const ProductShape& shape, const uint8_t* from, float* to, int64_t column)
{
    constexpr int64_t c0 = 32 / static_cast<int64_t>(sizeof(T));
    const int64_t columns = CeilDiv(shape.n, kFractalRows);
    std::array<float, c0> row;
    for (int64_t k = 0; k < shape.k; k += c0) {
        const uint8_t* fractal = from + (k / c0 * columns + column) * kFractalBytes;
        for (int64_t n = 0; n < kFractalRows; ++n) {
            WidenRow<T>(fractal + n * 32, row.data(), shape.rounding);
            for (int64_t index = 0; index < c0; ++index) {
                to[(k + index) * kFractalRows + n] = row[static_cast<size_t>(index)];
            }
        }
    }
}

/// Adds to `rows` rows of 16 sums; the factor `left` has rows of `pitch`.
template <int64_t rows>
void AddTile(const float* left, int64_t pitch, const float* right, int64_t k, float* sums)
{
    std::array<std::array<Eight, 2>, rows> tile;
    for (int64_t row = 0; row < rows; ++row) {
        tile[row] = {LoadEight(sums + row * kFractalRows), LoadEight(sums + row * kFractalRows + 8)};
    }
    for (int64_t index = 0; index < k; ++index) {
        const Eight low = LoadEight(right + index * kFractalRows);
        const Eight high = LoadEight(right + index * kFractalRows + 8);
        for (int64_t row = 0; row < rows; ++row) {
            const float factor = left[row * pitch + index];
            tile[row][0] += low * factor;
            tile[row][1] += high * factor;
        }
    }
    for (int64_t row = 0; row < rows; ++row) {
        StoreEight(sums + row * kFractalRows, tile[row][0]);
        StoreEight(sums + row * kFractalRows + 8, tile[row][1]);
    }
}

template <typename T>
void AddProductOf(const ProductShape& shape, const uint8_t* left, const uint8_t* right, float* sums)
{
    constexpr int64_t c0 = 32 / static_cast<int64_t>(sizeof(T));
    thread_local std::vector<float> leftRows;
    thread_local std::vector<float> rightRows;
    const int64_t pitch = RoundUp(shape.k, c0);
    leftRows.resize(static_cast<size_t>(shape.m * pitch));
    rightRows.resize(static_cast<size_t>(pitch * kFractalRows));
    WidenLeft<T>(shape, left, leftRows.data(), pitch);
    const int64_t sumRows = RoundUp(shape.m, kFractalRows);
    for (int64_t column = 0; column < CeilDiv(shape.n, kFractalRows); ++column) {
        WidenRight<T>(shape, right, rightRows.data(), column);
        float* columnSums = sums + column * sumRows * kFractalRows;
        int64_t row = 0;
        for (; row + kTileRows <= shape.m; row += kTileRows) {
            AddTile<kTileRows>(leftRows.data() + row * pitch, pitch, rightRows.data(), shape.k,
                               columnSums + row * kFractalRows);
        }
        for (; row < shape.m; ++row) {
            AddTile<1>(leftRows.data() + row * pitch, pitch, rightRows.data(), shape.k,
                       columnSums + row * kFractalRows);
        }
    }
}

/// Element `index` of bytes with one or two elements each; the first of two is in the low bits.
template <int64_t perByte>
int8_t IntegerOf(const uint8_t* bytes, int64_t index)
{
    if constexpr (perByte == 1) {
        return static_cast<int8_t>(bytes[index]);
    } else {
        const int32_t bits = bytes[index / 2] >> (index % 2 * 4) & 0xF;
        return static_cast<int8_t>(bits >= 8 ? bits - 16 : bits);
    }
}

template <int64_t perByte>
int8_t IntegerAt(const uint8_t* factor, int64_t rowStride, int64_t columnStride, int64_t row, int64_t k)
{
    constexpr int64_t c0 = 32 * perByte;
    const int64_t fractal = row / kFractalRows * rowStride + k / c0 * columnStride;
    return IntegerOf<perByte>(factor + fractal * kFractalBytes + row % kFractalRows * 32, k % c0);
}

/// The element of the left factor for element `dense` of the right one: the first of two is among the first three of
/// four elements, the second one among the last three.
int64_t SelectedK(const uint8_t* indices, int64_t columns, int64_t n, int64_t dense)
{
    const int64_t fractal = dense / 32 * columns + n / kFractalRows;
    const uint8_t byte = indices[fractal * kIndexBytes + n % kFractalRows * 8 + dense % 32 / 4];
    return dense / 2 * 4 + dense % 2 + (byte >> dense % 4 * 2 & 3);
}

/// Sums of int32_t, which wrap around, with a sparse right factor.
void AddSparse(const ProductShape& shape, const uint8_t* left, const uint8_t* right, float* sums)
{
    const int64_t columns = CeilDiv(shape.n, kFractalRows);
    const int64_t sumRows = RoundUp(shape.m, kFractalRows);
    for (int64_t n = 0; n < shape.n; ++n) {
        for (int64_t m = 0; m < shape.m; ++m) {
            float* place = sums + (n / kFractalRows * sumRows + m) * kFractalRows + n % kFractalRows;
            uint32_t sum = 0;
            std::memcpy(&sum, place, sizeof(sum));
            for (int64_t dense = 0; dense < shape.k / 2; ++dense) {
                const int64_t k = SelectedK(shape.indices, columns, n, dense);
                sum += static_cast<uint32_t>(IntegerAt<1>(left, shape.kFractals, 1, m, k) *
                                             IntegerAt<1>(right, 1, columns, n, dense));
            }
            std::memcpy(place, &sum, sizeof(sum));
        }
    }
}

/// Sums of int32_t, which wrap around.
template <int64_t perByte>
void AddIntegers(const ProductShape& shape, const uint8_t* left, const uint8_t* right, float* sums)
{
    const int64_t columns = CeilDiv(shape.n, kFractalRows);
    const int64_t sumRows = RoundUp(shape.m, kFractalRows);
    std::vector<int8_t> column(static_cast<size_t>(shape.k));
    for (int64_t n = 0; n < shape.n; ++n) {
        for (int64_t k = 0; k < shape.k; ++k) {
            column[static_cast<size_t>(k)] = IntegerAt<perByte>(right, 1, columns, n, k);
        }
        for (int64_t m = 0; m < shape.m; ++m) {
            float* place = sums + (n / kFractalRows * sumRows + m) * kFractalRows + n % kFractalRows;
            uint32_t sum = 0;
            std::memcpy(&sum, place, sizeof(sum));
            for (int64_t k = 0; k < shape.k; ++k) {
                const int32_t factor =
                    shape.isVector ? IntegerOf<perByte>(left, k) : IntegerAt<perByte>(left, shape.kFractals, 1, m, k);
                sum += static_cast<uint32_t>(factor * column[static_cast<size_t>(k)]);
            }
            std::memcpy(place, &sum, sizeof(sum));
        }
    }
}

}  // namespace

float RoundedFactor(float value, FactorRounding rounding)
{
    if (rounding == FactorRounding::kNone || value != value) {
        return value;
    }
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    if (rounding == FactorRounding::kHf32ToEven) {
        bits += (kHf32Dropped >> 1) + (bits >> 12 & 1U);
    }
    bits &= ~kHf32Dropped;
    std::memcpy(&value, &bits, sizeof(bits));
    return value;
}

void AddProduct(const ProductShape& shape, const uint8_t* left, const uint8_t* right, float* sums)
{
    if (shape.indices != nullptr) {
        return AddSparse(shape, left, right, sums);
    }
    switch (shape.dtype) {
        case Dtype::kInt8:
            return AddIntegers<1>(shape, left, right, sums);
        case Dtype::kInt4:
            return AddIntegers<2>(shape, left, right, sums);
        case Dtype::kFloat16:
            return AddProductOf<half>(shape, left, right, sums);
        case Dtype::kBfloat16:
            return AddProductOf<bfloat16_t>(shape, left, right, sums);
        default:
            return AddProductOf<float>(shape, left, right, sums);
    }
}

}  // namespace opforge::twin::kernel
