// Selection by masks of bytes or bits, and the largest or smallest elements of rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernel/high/composite.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kBits = 8;

/// Operands: dst, src, mask. Sizes: rows, columns, mask columns, mode. Numbers: the probability that an element is
/// kept.
void Drop(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t columns = run.Size(1);
    const int64_t maskColumns = run.Size(2);
    const int64_t mode = run.Size(3);
    run.Expect(run.Number(0) > 0 && run.Number(0) < 1, "keepProb is not between 0 and 1");
    const bool isBits = mode == 0 ? maskColumns < columns : mode > 2;
    run.Expect(rows > 0 && columns > 0 && maskColumns * (isBits ? kBits : 1) >= columns,
               Text("maskLastAxis is ", maskColumns, ", which is too short for srcLastAxis = ", columns));
    run.PassUndefined();
    const Numbers mask = run.Read(2, "mask", rows * maskColumns);
    const std::vector<uint8_t> masks = run.TakeUndefined();
    Numbers x = run.Read(1, "src", rows * columns);
    run.TakeTmp();
    run.Charge(rows * columns);
    for (int64_t index = 0; index < rows * columns; ++index) {
        const int64_t column = index % columns;
        const auto at = static_cast<size_t>(index / columns * maskColumns + (isBits ? column / kBits : column));
        const auto byte = static_cast<int64_t>(mask[at]);
        const bool stays = isBits ? (byte >> (column % kBits) & 1) != 0 : byte != 0;
        double& value = x[static_cast<size_t>(index)];
        value = stays ? value / run.Number(0) : 0.0;
        run.Select(index, stays, masks, at);
    }
    run.Write(0, "dst", x);
}

/// Operands: dst, src, mask. Sizes: rows, columns, mask columns, whether a mask of 0 selects the tensor.
void SelectByBytes(Composite& run)
{
    constexpr int64_t maskUnit = 16;
    const int64_t rows = run.Size(0);
    const int64_t columns = run.Size(1);
    const int64_t maskColumns = run.Size(2);
    run.RequireBlocks("srcLastAxis", columns, run.View(1).size);
    run.RequireBlocks("maskLastAxis", maskColumns, run.View(2).size);
    run.Expect(maskColumns >= columns && maskColumns % maskUnit == 0 && rows * columns > 0,
               Text("maskLastAxis is ", maskColumns, ", expected a multiple of 16, at least srcLastAxis = ", columns));
    run.PassUndefined();
    const Numbers mask = run.Read(2, "mask", rows * maskColumns);
    const std::vector<uint8_t> masks = run.TakeUndefined();
    Numbers x = run.Read(1, "src", rows * columns);
    run.TakeTmp();
    run.Charge(rows * columns);
    for (int64_t index = 0; index < rows * columns; ++index) {
        const auto at = static_cast<size_t>(index / columns * maskColumns + index % columns);
        const bool stays = (mask[at] == 0) == (run.Size(3) != 0);
        double& value = x[static_cast<size_t>(index)];
        value = stays ? value : run.Number(0);
        run.Select(index, stays, masks, at);
    }
    run.Write(0, "dst", x);
}

/// Operands: values, indices, src, source indices, finish. Sizes: k, rows, pitch, columns, is small, is largest.
void TakeBest(Composite& run)
{
    constexpr int64_t sortUnit = 32;
    const int64_t k = run.Size(0);
    const int64_t rows = run.Size(1);
    const int64_t pitch = run.Size(2);
    const int64_t columns = run.Size(3);
    const bool isSmall = run.Size(4) != 0;
    const bool isLargest = run.Size(5) != 0;
    run.Expect(k >= 1 && k <= columns && columns <= pitch,
               Text("k is ", k, ", n is ", columns, " and inner is ", pitch, ", expected 1 <= k <= n <= inner"));
    run.Expect(pitch % sortUnit == 0 && (!isSmall || pitch == sortUnit),
               Text("inner is ", pitch, ", expected ", isSmall ? "32 in small mode" : "a multiple of 32"));
    const Numbers x = run.ReadRows(2, "src", rows, pitch, columns);
    const Numbers numbers = run.Has(3) ? run.Read(3, "srcIndex", isSmall ? rows * pitch : pitch) : Numbers();
    const Numbers finish = run.Has(4) ? run.Read(4, "finish", rows) : Numbers();
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    const int64_t valuePitch = isSmall ? k : RoundUp(k, kBlockBytes / run.View(0).size);
    const int64_t indexPitch = isSmall ? k : RoundUp(k, kBlockBytes / run.View(1).size);
    Numbers values(static_cast<size_t>(rows * valuePitch));
    Numbers indices(static_cast<size_t>(rows * indexPitch));
    for (int64_t row = 0; row < rows; ++row) {
        std::vector<int64_t> order(static_cast<size_t>(columns));
        std::iota(order.begin(), order.end(), row * pitch);
        std::stable_sort(order.begin(), order.end(), [&](int64_t left, int64_t right) {
            const double a = x[static_cast<size_t>(left)];
            const double b = x[static_cast<size_t>(right)];
            return std::isnan(a) ? !std::isnan(b) : isLargest ? a > b : a < b;
        });
        const bool isFinished = !finish.empty() && finish[static_cast<size_t>(row)] != 0;
        for (int64_t rank = 0; rank < k; ++rank) {
            const int64_t from = order[static_cast<size_t>(rank)];
            const int64_t column = from - row * pitch;
            const double index =
                numbers.empty() ? static_cast<double>(column) : numbers[static_cast<size_t>(isSmall ? from : column)];
            values[static_cast<size_t>(row * valuePitch + rank)] = x[static_cast<size_t>(from)];
            indices[static_cast<size_t>(row * indexPitch + rank)] = isFinished ? static_cast<double>(columns) : index;
        }
    }
    run.Write(0, "dstValue", values);
    run.Write(1, "dstIndex", indices);
}

}  // namespace

int64_t RunChoice(Composite& run)
{
    switch (run.Op()) {
        case HighOp::kDropOut:
            Drop(run);
            break;
        case HighOp::kSelect:
            SelectByBytes(run);
            break;
        default:
            TakeBest(run);
            break;
    }
    return 0;
}

}  // namespace opforge::twin::kernel
