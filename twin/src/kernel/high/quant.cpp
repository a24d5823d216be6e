// Quantization and dequantization.
#include <algorithm>
#include <cmath>

#include "kernel/high/composite.h"
#include "kernel/vector/numbers.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

double ToHalf(double value)
{
    return static_cast<double>(Rounded<half>(static_cast<float>(value)));
}

/// Scales and offsets: a tensor with `period` values, or a number.
Numbers LoadFactors(Composite& run, size_t operand, const char* name, int64_t period, double number)
{
    return run.Has(operand) ? run.Read(operand, name, period) : Numbers(1, number);
}

double Cyclic(const Numbers& values, int64_t index)
{
    return values[static_cast<size_t>(index) % values.size()];
}

/// Operands: dst, src, scale, offset. Sizes: count, scales. Each step is rounded to half.
void Quantize(Composite& run)
{
    const int64_t count = run.Size(0);
    const int64_t scales = run.Size(1);
    run.Expect(!run.Has(2) || (scales > 0 && count % scales == 0),
               Text("calCount is ", count, ", expected a multiple of scaleCount = ", scales));
    const Numbers x = run.Read(1, "src", count);
    const Numbers scale = LoadFactors(run, 2, "scale", scales, run.Number(0));
    const Numbers offset = LoadFactors(run, 3, "offset", scales, run.Number(1));
    run.TakeTmp();
    run.Charge(count);
    Numbers result;
    for (int64_t index = 0; index < count; ++index) {
        const double product = ToHalf(ToHalf(x[static_cast<size_t>(index)]) * ToHalf(Cyclic(scale, index)));
        const double sum = ToHalf(product + ToHalf(Cyclic(offset, index)));
        result.push_back(std::clamp(std::nearbyint(sum), -128.0, 127.0));
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src, scale. Sizes: rows, columns, columns to compute, whether one row may be several.
void Dequantize(Composite& run)
{
    int64_t rows = run.Size(0);
    int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    const int64_t unit = kBlockBytes / run.View(0).size;
    run.Expect(rows > 0 && columns > 0 && columns <= pitch,
               Text("params are {", rows, ", ", pitch, ", ", columns, "}, expected 1 <= calCount <= n"));
    if (run.Size(3) != 0 && rows == 1 && columns % unit == 0 && pitch % columns == 0) {
        rows = pitch / columns;
        pitch = columns;
    }
    run.RequireBlocks("n", pitch, run.View(1).size);
    const int64_t toPitch = RoundUp(pitch, unit);
    const Numbers x = run.ReadRows(1, "src", rows, pitch, columns);
    run.RequireNoOverlap(0, 1, rows * toPitch, "src");
    const Numbers scale = LoadFactors(run, 2, "deqScale", columns, run.Number(0));
    const bool isPacked = run.Has(2) && run.View(2).dtype == Dtype::kUint64;
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    Numbers result(static_cast<size_t>(rows * toPitch));
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            const double factor = Cyclic(scale, column);
            // The low half of a 64-bit scale is a float.
            const double value =
                isPacked ? BitsFloat(static_cast<uint32_t>(static_cast<int64_t>(factor) & 0xFFFFFFFF)) : factor;
            result[static_cast<size_t>(row * toPitch + column)] = x[static_cast<size_t>(row * pitch + column)] * value;
        }
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src, scale, offset. Sizes: elements, k, is transposed, groups. dst = scale * (src + offset). For a
/// dst of half, each step is rounded to half.
void Antiquantize(Composite& run)
{
    const int64_t count = run.Size(0);
    const int64_t k = run.Size(1);
    const bool isTransposed = run.Size(2) != 0;
    run.Expect(k > 0 && count % k == 0, Text("src has ", count, " elements, expected a multiple of k = ", k));
    const int64_t n = count / k;
    // Without shapeInfo, all rows have one scale per column.
    const int64_t groups = run.Has(2) ? std::max<int64_t>(run.Size(3), 1) : 1;
    run.Expect(k % groups == 0, Text("k is ", k, ", expected a multiple of the ", groups, " groups"));
    const Numbers x = run.Read(1, "src", count);
    const Numbers scale = LoadFactors(run, 2, "scale", groups * n, run.Number(0));
    const Numbers offset = LoadFactors(run, 3, "offset", groups * n, run.Number(1));
    run.TakeTmp();
    run.Charge(count);
    const int64_t group = k / groups;
    const bool isHalf = run.View(0).dtype == Dtype::kFloat16;
    Numbers result;
    for (int64_t index = 0; index < count; ++index) {
        const int64_t at = isTransposed ? index / k * groups + index % k / group : index / n / group * n + index % n;
        const double sum = x[static_cast<size_t>(index)] + Cyclic(offset, at);
        result.push_back(Cyclic(scale, at) * (isHalf ? ToHalf(sum) : sum));
    }
    run.Write(0, "dst", result);
}

}  // namespace

int64_t RunQuant(Composite& run)
{
    switch (run.Op()) {
        case HighOp::kAscendQuant:
            Quantize(run);
            break;
        case HighOp::kAscendDequant:
            Dequantize(run);
            break;
        default:
            Antiquantize(run);
            break;
    }
    return 0;
}

}  // namespace opforge::twin::kernel
