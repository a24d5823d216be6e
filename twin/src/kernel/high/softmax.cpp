// The softmax family: rows of a matrix, and one result of each row in a block of 32 bytes.
#include <algorithm>
#include <cmath>

#include "kernel/high/composite.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kFractal = 16;  // columns of a fractal

enum Operand : size_t { kDst, kSum, kMax, kSrc, kExpMax, kInSum, kInMax, kExtra, kInMean };

class Softmax {
public:
    explicit Softmax(Composite& run)
        : run_(run),
          pitch_(run.Size(1)),
          rows_(run.Size(2)),
          columns_(run.Size(3)),
          allRows_(run.Size(0)),
          isFractal_(run.Size(4) != 0),
          isPacked_(run.Size(5) != 0)
    {
        run.Expect(rows_ > 0 && columns_ > 0 && rows_ <= allRows_ && columns_ <= pitch_,
                   Text("the shape is [", allRows_, ", ", pitch_, "] with the valid part [", rows_, ", ", columns_,
                        "], expected 1 <= oriSrcM <= srcM and 1 <= oriSrcK <= srcK"));
        run.RequireBlocks("srcK", pitch_, run.View(kDst).size);
    }

    int64_t Rows() const { return rows_; }
    int64_t Columns() const { return columns_; }
    int64_t Pitch() const { return pitch_; }

    Numbers Load(size_t operand, const char* name)
    {
        return isFractal_ ? run_.Read(operand, name, allRows_ * pitch_)
                          : run_.ReadRows(operand, name, rows_, pitch_, columns_);
    }
    size_t At(int64_t row, int64_t column) const
    {
        const int64_t fractal = (column / kFractal * allRows_ + row) * kFractal + column % kFractal;
        return static_cast<size_t>(isFractal_ ? fractal : row * pitch_ + column);
    }
    /// The value of each row of a tensor with one value per row.
    Numbers LoadEach(size_t operand, const char* name)
    {
        const int64_t step = Step(operand);
        const Numbers all = run_.Read(operand, name, rows_ * step);
        Numbers values;
        for (size_t index = 0; index < all.size(); index += static_cast<size_t>(step)) {
            values.push_back(all[index]);
        }
        return values;
    }
    void StoreEach(size_t operand, const char* name, const Numbers& values)
    {
        if (!run_.Has(operand)) {
            return;
        }
        Numbers all;
        for (const double value : values) {
            all.insert(all.end(), static_cast<size_t>(Step(operand)), value);
        }
        run_.Write(operand, name, all);
    }

private:
    int64_t Step(size_t operand) const { return isPacked_ ? 1 : kBlockBytes / run_.View(operand).size; }

    Composite& run_;
    int64_t pitch_;
    int64_t rows_;
    int64_t columns_;
    int64_t allRows_;
    bool isFractal_;
    bool isPacked_;
};

template <typename Term>
Numbers EachRow(const Softmax& shape, double start, const Term& term)
{
    Numbers results(static_cast<size_t>(shape.Rows()), start);
    for (int64_t row = 0; row < shape.Rows(); ++row) {
        for (int64_t column = 0; column < shape.Columns(); ++column) {
            double& result = results[static_cast<size_t>(row)];
            result = term(result, row, column);
        }
    }
    return results;
}

template <typename Change>
void Transform(const Softmax& shape, const Change& change)
{
    for (int64_t row = 0; row < shape.Rows(); ++row) {
        for (int64_t column = 0; column < shape.Pitch(); ++column) {
            change(row, column);
        }
    }
}

/// The sum that a column is added to for the mean of one of 8 parts. As documented, the sums of blocks of 8 columns are
/// those of the first 512 columns, and each further row of 64 columns is added to them before they are added in eights.
int64_t PartOfColumn(int64_t column)
{
    return column < 512 ? column / 64 : column % 64 / 8;
}

/// Mean shift of SoftmaxFlashV3: subtracts the difference of the means of a row and of a part from the part.
Numbers ShiftMeans(Composite& run, const Softmax& shape, Numbers& x, double factor)
{
    const int64_t parts = run.Size(8);
    run.Expect(parts == 8, Text("splitMeanCnt is ", parts, ", expected 8"));
    run.Expect(shape.Columns() >= 512 && shape.Columns() % 64 == 0 && shape.Rows() % 8 == 0,
               Text("the shape is [", shape.Rows(), ", ", shape.Columns(),
                    "], expected rows in multiples of 8, and columns in multiples of 64, at least 512"));
    const int64_t length = shape.Columns() / parts;
    const auto add = [&](double sum, int64_t row, int64_t column) { return sum + x[shape.At(row, column)]; };
    Numbers means = EachRow(shape, 0.0, add);
    const Numbers before = x;
    for (int64_t row = 0; row < shape.Rows(); ++row) {
        double& mean = means[static_cast<size_t>(row)];
        mean /= static_cast<double>(shape.Columns());
        for (int64_t part = 0; part < parts; ++part) {
            double sum = 0.0;
            for (int64_t column = 0; column < shape.Columns(); ++column) {
                sum += PartOfColumn(column) == part ? before[shape.At(row, column)] : 0.0;
            }
            for (int64_t column = 0; column < shape.Columns(); ++column) {
                if (column / length == part) {
                    x[shape.At(row, column)] -= (mean - sum / static_cast<double>(length)) * factor;
                }
            }
        }
    }
    return means;
}

/// SoftMax, LogSoftMax and the flash versions.
void Normalize(Composite& run, Softmax& shape)
{
    const HighOp op = run.Op();
    const bool isFlash = op == HighOp::kSoftmaxFlash || op == HighOp::kSoftmaxFlashV2 || op == HighOp::kSoftmaxFlashV3;
    const bool isUpdate = isFlash && run.Size(6) != 0;
    Numbers x = shape.Load(kSrc, "src");
    run.RequireNoOverlap(kDst, kSrc, shape.Rows() * shape.Pitch(), "src");
    const Numbers oldMax = isUpdate ? shape.LoadEach(kInMax, "inMax") : Numbers();
    const Numbers oldSum = isUpdate ? shape.LoadEach(kInSum, "inExpSum") : Numbers();
    const bool shifts = op == HighOp::kSoftmaxFlashV3;
    const Numbers oldMean = shifts && isUpdate ? shape.LoadEach(kInMean, "inMean") : Numbers();
    run.TakeTmp(shape.Pitch());
    run.Charge(shape.Rows() * shape.Pitch());

    const double factor = shifts ? run.Number(0) / (1.0 - run.Number(0)) : 0.0;
    const Numbers means = shifts ? ShiftMeans(run, shape, x, factor) : Numbers();
    Numbers total = means;
    const auto larger = [&](double max, int64_t row, int64_t column) {
        return std::fmax(max, x[shape.At(row, column)]);
    };
    const Numbers rowMax = EachRow(shape, -HUGE_VAL, larger);
    Numbers max = rowMax;
    Numbers subtracted = rowMax;
    Numbers scale(rowMax.size(), 1.0);
    for (size_t row = 0; row < max.size(); ++row) {
        double shift = 0.0;
        double oldShift = 0.0;
        if (shifts && isUpdate) {
            const auto loops = static_cast<double>(run.Size(7));
            total[row] = (means[row] + oldMean[row] * (loops - 1.0)) / loops;
            shift = (means[row] - total[row]) * factor;
            oldShift = (oldMean[row] - total[row]) * factor;
        }
        max[row] = isUpdate ? std::fmax(rowMax[row] + shift, oldMax[row] + oldShift) : rowMax[row] + shift;
        subtracted[row] = max[row] - shift;
        scale[row] = isUpdate ? std::exp(oldMax[row] - max[row] + oldShift) : 1.0;
    }
    Transform(shape, [&](int64_t row, int64_t column) {
        double& value = x[shape.At(row, column)];
        value = std::exp(value - subtracted[static_cast<size_t>(row)]);
    });
    const auto add = [&](double sum, int64_t row, int64_t column) { return sum + x[shape.At(row, column)]; };
    Numbers sum = EachRow(shape, 0.0, add);
    for (size_t row = 0; row < sum.size() && isUpdate; ++row) {
        sum[row] += scale[row] * oldSum[row];
        scale[row] *= op == HighOp::kSoftmaxFlash ? oldSum[row] / sum[row] : 1.0;
    }
    Transform(shape, [&](int64_t row, int64_t column) {
        double& value = x[shape.At(row, column)];
        if (op != HighOp::kSoftmaxFlashV2 && !shifts) {
            value /= sum[static_cast<size_t>(row)];
        }
        value = op == HighOp::kLogSoftMax ? std::log10(value) : value;
    });
    run.Write(kDst, "dst", x);
    shape.StoreEach(kSum, "sum", sum);
    shape.StoreEach(kMax, "max", max);
    if (isFlash && run.Has(kExtra)) {
        shape.StoreEach(kExtra, shifts ? "mean" : "outReduceMax", shifts ? total : rowMax);
    }
    if (isUpdate) {
        shape.StoreEach(kExpMax, "expMax", scale);
    }
}

void ApplyRowResults(Composite& run, Softmax& shape)
{
    Numbers x = shape.Load(kSrc, "src");
    const Numbers sum = shape.LoadEach(kSum, "inSum");
    const Numbers max = shape.LoadEach(kMax, "inMax");
    run.TakeTmp(shape.Pitch());
    run.Charge(shape.Rows() * shape.Pitch());
    Transform(shape, [&](int64_t row, int64_t column) {
        double& value = x[shape.At(row, column)];
        value = std::exp(value - max[static_cast<size_t>(row)]) / sum[static_cast<size_t>(row)];
    });
    run.Write(kDst, "dst", x);
}

void Differentiate(Composite& run, Softmax& shape)
{
    Numbers grad = shape.Load(kSum, "grad");
    const Numbers y = shape.Load(kSrc, "src");
    run.TakeTmp(shape.Pitch());
    run.Charge(shape.Rows() * shape.Pitch());
    const Numbers sum = EachRow(shape, 0.0, [&](double before, int64_t row, int64_t column) {
        return before + grad[shape.At(row, column)] * y[shape.At(row, column)];
    });
    if (run.Size(6) != 0) {
        shape.StoreEach(kDst, "dst", sum);
        return;
    }
    Transform(shape, [&](int64_t row, int64_t column) {
        double& value = grad[shape.At(row, column)];
        value = (value - sum[static_cast<size_t>(row)]) * y[shape.At(row, column)];
    });
    run.Write(kDst, "dst", grad);
}

int64_t Adjust(Composite& run, Softmax& shape)
{
    const auto bits = static_cast<uint32_t>(run.Size(6));
    const double from = run.View(kMax).size == 2 ? HalfToFloat(static_cast<uint16_t>(bits)) : BitsFloat(bits);
    Numbers x = shape.Load(kDst, "softMaxRes");
    const Numbers max = shape.LoadEach(kMax, "max");
    run.TakeTmp();
    run.Charge(shape.Rows() * shape.Pitch());
    bool isChanged = false;
    Transform(shape, [&](int64_t row, int64_t column) {
        if (max[static_cast<size_t>(row)] == from) {
            x[shape.At(row, column)] = run.Number(0);
            isChanged = true;
        }
    });
    if (isChanged) {
        run.Write(kDst, "softMaxRes", x);
    }
    return isChanged ? 1 : 0;
}

}  // namespace

int64_t RunSoftmax(Composite& run)
{
    Softmax shape(run);
    switch (run.Op()) {
        case HighOp::kAdjustSoftMaxRes:
            return Adjust(run, shape);
        case HighOp::kSimpleSoftMax:
            ApplyRowResults(run, shape);
            return 0;
        case HighOp::kSoftmaxGrad:
        case HighOp::kSoftmaxGradFront:
            Differentiate(run, shape);
            return 0;
        default:
            Normalize(run, shape);
            return 0;
    }
}

}  // namespace opforge::twin::kernel
