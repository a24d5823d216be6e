// Broadcast, padding and transposition.
#include <algorithm>

#include "kernel/high/composite.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

/// Operands: dst, src. Sizes: rows and columns of dst, rows and columns of src.
void Repeat(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t columns = run.Size(1);
    const int64_t srcRows = run.Size(2);
    const int64_t srcColumns = run.Size(3);
    run.Expect((srcRows == rows || srcRows == 1) && (srcColumns == columns || srcColumns == 1) && rows * columns > 0,
               Text("srcShape is [", srcRows, ", ", srcColumns, "] and dstShape is [", rows, ", ", columns,
                    "], expected equal axes, or 1 in srcShape"));
    if (srcRows != rows && rows > 1) {
        run.RequireBlocks("srcShape[1]", srcColumns, run.View(1).size);
    }
    const Numbers x = run.Read(1, "src", srcRows * srcColumns);
    run.RequireNoOverlap(0, 1, rows * columns, "src", srcRows * srcColumns);
    run.TakeTmp();
    run.Charge(rows * columns);
    Numbers result;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            const int64_t from = (srcRows == 1 ? 0 : row) * srcColumns + (srcColumns == 1 ? 0 : column);
            result.push_back(x[static_cast<size_t>(from)]);
        }
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src. Sizes: rows, columns, valid columns, left, right. Numbers: value.
void AddPadding(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t valid = run.Size(2);
    const int64_t left = run.Size(3);
    const int64_t right = run.Size(4);
    const int64_t unit = kBlockBytes / run.View(0).size;
    const bool isAligned = pitch % unit == 0;
    const int64_t width = isAligned ? pitch : pitch + left + right;
    run.RequireRows(rows, valid, pitch);
    run.Expect(!isAligned || (valid < pitch && left == 0 && right == pitch - valid),
               Text("the rows have ", pitch, " columns, a multiple of 32 bytes, of which ", valid,
                    " are valid: expected leftPad = 0 and rightPad = ", pitch - valid, ", at least 1"));
    run.Expect(width <= RoundUp(pitch, unit),
               Text("the padded rows have ", width, " columns, expected at most ", RoundUp(pitch, unit)));
    run.RequireBlocks("src", rows * pitch, run.View(1).size);
    const Numbers x = run.Read(1, "src", rows * pitch);
    run.TakeTmp(width);
    run.Charge(rows * width);
    Numbers result(static_cast<size_t>(rows * width), run.Number(0));
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < valid; ++column) {
            result[static_cast<size_t>(row * width + left + column)] = x[static_cast<size_t>(row * pitch + column)];
        }
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src. Sizes: rows, columns, left, right.
void RemovePadding(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t width = pitch - run.Size(3);
    run.Expect(rows > 0 && width > 0 && run.Size(3) > 0 && run.Size(3) * run.View(0).size < kBlockBytes,
               Text("rightPad is ", run.Size(3), " of ", pitch, " columns, expected more than 0, less than 32 bytes"));
    run.RequireBlocks("srcWidth", pitch, run.View(1).size);
    const Numbers x = run.Read(1, "src", rows * pitch);
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    Numbers result;
    for (int64_t row = 0; row < rows; ++row) {
        result.insert(result.end(), x.begin() + row * pitch, x.begin() + row * pitch + width);
    }
    run.Write(0, "dst", result);
}

constexpr int64_t kSide = 16;  // of a fractal

/// The element of a matrix of `rows` in fractals.
int64_t InFractals(int64_t matrix, int64_t rows, int64_t columns, int64_t row, int64_t column)
{
    return ((matrix * (columns / kSide) + column / kSide) * rows + row) * kSide + column % kSide;
}

/// Operands: dst, src. Sizes: the TransposeType, B, N, S, H / N.
void RearrangeHeads(Composite& run, AscendC::TransposeType type)
{
    using AscendC::TransposeType;
    const int64_t heads = run.Size(2);
    const int64_t rows = run.Size(3);
    const int64_t width = run.Size(4);
    const int64_t all = heads * width;
    const bool swaps = type == TransposeType::TRANSPOSE_NZ2ND_0213 || type == TransposeType::TRANSPOSE_NZ2NZ_0213;
    const bool splits =
        type == TransposeType::TRANSPOSE_NZ2NZ_012_WITH_N || type == TransposeType::TRANSPOSE_NZ2ND_012_WITH_N;
    const bool isFractal = type == TransposeType::TRANSPOSE_NZ2NZ_0213 ||
                           type == TransposeType::TRANSPOSE_NZ2NZ_012_WITH_N ||
                           type == TransposeType::TRANSPOSE_NZ2NZ_012_WITHOUT_N;
    run.Expect(run.Size(1) > 0 && heads > 0 && rows > 0 && width > 0 && rows % kSide == 0 && width % kSide == 0,
               Text("the shape is [", run.Size(1), ", ", heads, ", ", rows, ", ", width,
                    "], expected positive sizes, and multiples of 16 for the last two"));
    run.Expect(!(swaps && isFractal) || heads % kSide == 0,
               Text("N is ", heads, ", expected a multiple of 16 for TRANSPOSE_NZ2NZ_0213"));
    const int64_t count = run.Size(1) * heads * rows * width;
    const Numbers x = run.Read(1, "src", count);
    run.RequireNoOverlap(0, 1, count, "src");
    run.TakeTmp();
    run.Charge(count);
    Numbers result(x.size());
    for (int64_t index = 0; index < count; ++index) {
        const int64_t d = index % width;
        const int64_t row = index / width % rows;
        const int64_t head = index / (width * rows) % heads;
        const int64_t batch = index / (width * rows * heads);
        const int64_t column = head * width + d;
        const int64_t from =
            splits ? InFractals(batch, rows, all, row, column) : InFractals(batch * heads + head, rows, width, row, d);
        const int64_t to = swaps       ? isFractal ? InFractals(batch * rows + row, heads, width, head, d)
                                                   : (batch * rows + row) * all + column
                           : splits    ? isFractal ? InFractals(batch * heads + head, rows, width, row, d) : index
                           : isFractal ? InFractals(batch, rows, all, row, column)
                                       : (batch * rows + row) * all + column;
        result[static_cast<size_t>(to)] = x[static_cast<size_t>(from)];
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src. Sizes: the TransposeType, rows, columns.
void SwapAxes(Composite& run)
{
    using AscendC::TransposeType;
    const auto type = static_cast<TransposeType>(run.Size(0));
    if (type >= TransposeType::TRANSPOSE_NZ2ND_0213 && type <= TransposeType::TRANSPOSE_NZ2NZ_012_WITHOUT_N) {
        return RearrangeHeads(run, type);
    }
    run.Expect(
        type == TransposeType::TRANSPOSE_ND2ND_ONLY,
        Text("transposeType is ", run.Size(0), ", expected 1 to 7, TRANSPOSE_NZ2ND_0213 to TRANSPOSE_ND2ND_ONLY"));
    const int64_t rows = run.Size(1);
    const int64_t columns = run.Size(2);
    run.Expect(rows > 0 && columns > 0 && rows % kSide == 0 && columns % kSide == 0,
               Text("the shape is [", rows, ", ", columns, "], expected multiples of 16"));
    const Numbers x = run.Read(1, "src", rows * columns);
    run.RequireNoOverlap(0, 1, rows * columns, "src");
    run.TakeTmp();
    run.Charge(rows * columns);
    Numbers result(x.size());
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
            result[static_cast<size_t>(column * rows + row)] = x[static_cast<size_t>(row * columns + column)];
        }
    }
    run.Write(0, "dst", result);
}

/// Operands: dst, src. Sizes: to parts, fractals; N, C, D, H, W; N1, N0, D, C1, H, W, C0 of the parts (N, 1, D, ...
/// without fractals). Rows of H x W points in NCDHW end at a multiple of 32 bytes.
void MoveChannels(Composite& run)
{
    constexpr int64_t kPart = 16;
    const bool isToParts = run.Size(0) != 0;
    const bool isFractal = run.Size(1) != 0;
    const int64_t images = run.Size(2);
    const int64_t channels = run.Size(3);
    const int64_t depth = run.Size(4);
    const int64_t points = run.Size(5) * run.Size(6);
    const int64_t channelParts = CeilDiv(channels, kPart);
    const int64_t imageParts = isFractal ? CeilDiv(images, kPart) : images;
    const int64_t part = isFractal ? kPart : 1;
    run.Expect(images * channels * depth * points > 0, "an axis of the shapes is 0");
    run.Expect(run.Size(7) == imageParts && run.Size(8) == part && run.Size(9) == depth &&
                   run.Size(10) == channelParts && run.Size(11) == run.Size(5) && run.Size(12) == run.Size(6) &&
                   run.Size(13) == kPart,
               Text("the layouts do not fit: for N = ", images, ", C = ", channels, ", D = ", depth,
                    ", expected D and H, W in both, C1 = ", channelParts, ", C0 = 16",
                    isFractal ? Text(", N1 = ", imageParts, ", N0 = 16") : ""));
    const int64_t pitch = RoundUp(points, kPart);
    const int64_t rows = images * channels * depth;
    const int64_t elements = imageParts * part * depth * channelParts * points * kPart;
    const Numbers x = isToParts ? run.ReadRows(1, "src", rows, pitch, points) : run.Read(1, "src", elements);
    run.RequireNoOverlap(0, 1, std::min(elements, rows * pitch), "src");
    run.TakeTmp();
    run.Charge(elements);
    Numbers result(static_cast<size_t>(isToParts ? elements : rows * pitch));
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t image = row / (channels * depth);
        const int64_t channel = row / depth % channels;
        const int64_t outer = isFractal ? row % depth : image * depth + row % depth;
        for (int64_t point = 0; point < points; ++point) {
            const int64_t at = (outer * channelParts + channel / kPart) * points + point;
            const int64_t inner = isFractal ? (at * imageParts + image / kPart) * kPart + image % kPart : at;
            const auto whole = static_cast<size_t>(row * pitch + point);
            const auto parts = static_cast<size_t>(inner * kPart + channel % kPart);
            result[isToParts ? parts : whole] = x[isToParts ? whole : parts];
        }
    }
    if (isToParts) {
        run.Write(0, "dst", result);
        return;
    }
    for (int64_t row = 0; row < rows; ++row) {  // the points after a row keep their values
        const auto begin = result.begin() + row * pitch;
        run.Write(0, "dst", Numbers(begin, begin + points), row * pitch);
    }
}

}  // namespace

int64_t RunLayout(Composite& run)
{
    switch (run.Op()) {
        case HighOp::kBroadcast:
            Repeat(run);
            break;
        case HighOp::kPad:
            AddPadding(run);
            break;
        case HighOp::kTransData:
            MoveChannels(run);
            break;
        case HighOp::kUnPad:
            RemovePadding(run);
            break;
        default:
            SwapAxes(run);
            break;
    }
    return 0;
}

}  // namespace opforge::twin::kernel
