// Reductions of one axis, sums and cumulative sums.
#include <algorithm>
#include <cmath>

#include "kernel/high/composite.h"

namespace opforge::twin::kernel {

namespace {

double Start(HighOp op)
{
    switch (op) {
        case HighOp::kReduceMax:
            return -HUGE_VAL;
        case HighOp::kReduceMin:
            return HUGE_VAL;
        case HighOp::kReduceProd:
        case HighOp::kReduceAll:
            return 1.0;
        default:
            return 0.0;
    }
}

double Join(HighOp op, double a, double b)
{
    switch (op) {
        case HighOp::kReduceMax:
            return std::fmax(a, b);
        case HighOp::kReduceMin:
            return std::fmin(a, b);
        case HighOp::kReduceProd:
            return a * b;
        case HighOp::kReduceAll:
            return a != 0 && b != 0 ? 1.0 : 0.0;
        case HighOp::kReduceAny:
            return a != 0 || b != 0 ? 1.0 : 0.0;
        default:
            return a + b;
    }
}

/// Operands: dst, src. Sizes: rows, pitch, columns, whether the last axis is reduced.
void ReduceAxis(Composite& run)
{
    const HighOp op = run.Op();
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    const bool isLast = run.Size(3) != 0;
    run.Expect(rows > 0 && columns > 0 && columns <= pitch, "the shape is empty, or n is larger than inner");
    run.RequireBlocks("the last axis", pitch, run.View(1).size);
    if (op == HighOp::kMean || op == HighOp::kSum) {
        run.RequirePadded(pitch, columns, run.View(1).size);
    }
    const Numbers x = run.ReadRows(1, "src", rows, pitch, columns);
    const int64_t results = isLast ? rows : columns;
    run.RequireNoOverlap(0, 1, results, "src");
    run.TakeTmp();
    run.Charge(rows * pitch);
    Numbers result(static_cast<size_t>(results), Start(op));
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            double& to = result[static_cast<size_t>(isLast ? row : column)];
            to = Join(op, to, x[static_cast<size_t>(row * pitch + column)]);
        }
    }
    if (op == HighOp::kMean || op == HighOp::kReduceMean) {
        for (double& value : result) {
            value /= static_cast<double>(isLast ? columns : rows);
        }
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, last row, src. Sizes: rows, columns, whether sums run along the last axis, whether to store the last
/// row.
void Accumulate(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t columns = run.Size(1);
    run.Expect(rows > 0 && columns > 0, "outter and inner of cumSumInfo are 0");
    run.RequireBlocks("inner", columns, run.View(0).size);
    Numbers x = run.Read(2, "src", rows * columns);
    run.TakeTmp(columns);
    run.Charge(rows * columns);
    const int64_t step = run.Size(2) != 0 ? 1 : columns;
    for (int64_t index = step; index < rows * columns; ++index) {
        if (step == columns || index % columns != 0) {
            x[static_cast<size_t>(index)] += x[static_cast<size_t>(index - step)];
        }
    }
    run.Write(0, "dst", x);
    if (run.Size(3) != 0) {
        run.Write(1, "lastRow", Numbers(x.end() - columns, x.end()));
    }
}

/// Operands: dst, src0, src1. Sizes: count.
void SumDifferences(Composite& run)
{
    const int64_t count = run.Size(0);
    const Numbers a = run.Read(1, "src0", count);
    const Numbers b = run.Read(2, "src1", count);
    run.TakeTmp();
    run.Charge(count);
    double sum = 0.0;
    for (size_t index = 0; index < a.size(); ++index) {
        sum += static_cast<double>(static_cast<int64_t>(a[index]) ^ static_cast<int64_t>(b[index]));
    }
    run.Write(0, "dst", {std::clamp(sum, -32768.0, 32767.0)});
}

}  // namespace

int64_t RunReduction(Composite& run)
{
    switch (run.Op()) {
        case HighOp::kCumSum:
            Accumulate(run);
            break;
        case HighOp::kReduceXorSum:
            SumDifferences(run);
            break;
        default:
            ReduceAxis(run);
            break;
    }
    return 0;
}

}  // namespace opforge::twin::kernel
