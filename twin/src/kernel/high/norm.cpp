// Normalizations over rows, batches or groups, their gradients, and the Welford functions.
#include <cmath>

#include "kernel/high/composite.h"

namespace opforge::twin::kernel {

namespace {

double At(const Numbers& values, int64_t index)
{
    return values[static_cast<size_t>(index)];
}

Numbers Zeros(int64_t count)
{
    return Numbers(static_cast<size_t>(count));
}

/// A gamma or beta that the function may not have.
Numbers LoadOr(Composite& run, size_t operand, const char* name, int64_t count, double value)
{
    return run.Has(operand) ? run.Read(operand, name, count) : Numbers(static_cast<size_t>(count), value);
}

void StoreIf(Composite& run, size_t operand, const char* name, const Numbers& values)
{
    if (run.Has(operand)) {
        run.Write(operand, name, values);
    }
}

struct Moments {
    double mean = 0.0;
    double variance = 0.0;
};

/// `count` elements at distances of `step`.
Moments MomentsOf(const Numbers& x, int64_t first, int64_t count, int64_t step)
{
    Moments moments;
    for (int64_t index = 0; index < count; ++index) {
        moments.mean += At(x, first + index * step);
    }
    moments.mean /= static_cast<double>(count);
    for (int64_t index = 0; index < count; ++index) {
        const double distance = At(x, first + index * step) - moments.mean;
        moments.variance += distance * distance;
    }
    moments.variance /= static_cast<double>(count);
    return moments;
}

/// LayerNorm and DeepNorm. Operands: out, mean, variance, x, gamma, beta, gx. Sizes: rows, pitch, columns, has rstd.
void NormalizeRows(Composite& run)
{
    const bool isDeep = run.Op() == HighOp::kDeepNorm;
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    run.RequireRows(rows, columns, pitch);
    run.RequireBlocks("the last axis", pitch, run.View(0).size);
    Numbers x = run.ReadRows(3, "inputX", rows, pitch, columns);
    run.RequireNoOverlap(0, 3, rows * pitch, "inputX");
    const Numbers gamma = LoadOr(run, 4, "gamma", columns, 1.0);
    const Numbers beta = LoadOr(run, 5, "beta", columns, 0.0);
    if (isDeep) {
        const Numbers gx = run.ReadRows(6, "gx", rows, pitch, columns);
        for (size_t index = 0; index < x.size(); ++index) {
            x[index] = run.Number(1) * x[index] + gx[index];
        }
    }
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    Numbers means = Zeros(rows);
    Numbers seconds = Zeros(rows);
    for (int64_t row = 0; row < rows; ++row) {
        const Moments moments = MomentsOf(x, row * pitch, columns, 1);
        const double rstd = 1.0 / std::sqrt(moments.variance + run.Number(0));
        means[static_cast<size_t>(row)] = moments.mean;
        seconds[static_cast<size_t>(row)] = run.Size(3) != 0 ? rstd : moments.variance;
        for (int64_t column = 0; column < pitch; ++column) {
            double& value = x[static_cast<size_t>(row * pitch + column)];
            value = column < columns ? (value - moments.mean) * rstd * At(gamma, column) + At(beta, column) : 0.0;
        }
    }
    run.Write(0, "output", x);
    StoreIf(run, 1, "outputMean", means);
    StoreIf(run, 2, run.Size(3) != 0 ? "outputRstd" : "outputVariance", seconds);
}

/// Operands: out, x, gamma. Sizes: rows, pitch, columns.
void NormalizeByRoot(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    run.RequireRows(rows, columns, pitch);
    run.RequireBlocks("the last axis", pitch, run.View(0).size);
    Numbers x = run.ReadRows(1, "src", rows, pitch, columns);
    const Numbers gamma = run.Read(2, "gamma", columns);
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    for (int64_t row = 0; row < rows; ++row) {
        double sum = 0.0;
        for (int64_t column = 0; column < columns; ++column) {
            sum += At(x, row * pitch + column) * At(x, row * pitch + column);
        }
        const double scale = 1.0 / std::sqrt(sum / static_cast<double>(columns) + run.Number(0));
        for (int64_t column = 0; column < pitch; ++column) {
            double& value = x[static_cast<size_t>(row * pitch + column)];
            value = column < columns ? value * scale * At(gamma, column) : 0.0;
        }
    }
    run.Write(0, "dst", x);
}

/// BatchNorm and GroupNorm. Operands: out, mean, variance, x, gamma, beta. Sizes: outer, groups, channels of a group,
/// elements of a channel, their pitch.
void NormalizeGroups(Composite& run)
{
    const bool isBatch = run.Op() == HighOp::kBatchNorm;
    const int64_t outer = run.Size(0);
    const int64_t groups = run.Size(1);
    const int64_t channels = run.Size(2);
    const int64_t length = run.Size(3);
    const int64_t pitch = run.Size(4);
    run.Expect(outer * groups * channels * length > 0, "the shape of the tiling data is empty");
    run.RequireRows(outer * groups * channels, length, pitch);
    run.RequireBlocks(isBatch ? "S * H" : "H * W with padding", pitch, run.View(0).size);
    const int64_t count = outer * groups * channels * pitch;
    Numbers x = run.Read(3, "inputX", count);
    const Numbers gamma = run.Read(4, "gamma", groups * channels);
    const Numbers beta = run.Read(5, "beta", groups * channels);
    run.TakeTmp();
    run.Charge(count);
    // BatchNorm: the moments of each position over all channels (the batch). GroupNorm: of each group.
    const int64_t sets = isBatch ? length : outer * groups;
    Numbers means = Zeros(sets);
    Numbers variances = Zeros(sets);
    for (int64_t set = 0; set < sets; ++set) {
        Numbers members;
        const int64_t first = isBatch ? set : set * channels * pitch;
        for (int64_t channel = 0; channel < channels; ++channel) {
            for (int64_t index = 0; index < (isBatch ? 1 : length); ++index) {
                members.push_back(At(x, first + channel * pitch + index));
            }
        }
        const Moments moments = MomentsOf(members, 0, static_cast<int64_t>(members.size()), 1);
        means[static_cast<size_t>(set)] = moments.mean;
        variances[static_cast<size_t>(set)] = moments.variance;
        const double rstd = 1.0 / std::sqrt(moments.variance + run.Number(0));
        for (int64_t channel = 0; channel < channels; ++channel) {
            const int64_t parameter = (isBatch ? 0 : set % groups * channels) + channel;
            for (int64_t index = 0; index < (isBatch ? 1 : length); ++index) {
                double& value = x[static_cast<size_t>(first + channel * pitch + index)];
                value = (value - moments.mean) * rstd * At(gamma, parameter) + At(beta, parameter);
            }
        }
    }
    run.Write(0, "output", x);
    run.Write(1, "outputMean", means);
    run.Write(2, "outputVariance", variances);
}

/// Operands: pdX, resForGamma, dy, x, variance, mean, gamma. Sizes: rows, pitch, columns.
void Differentiate(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    run.RequireRows(rows, columns, pitch);
    run.RequireBlocks("the last axis", pitch, run.View(0).size);
    const Numbers dy = run.ReadRows(2, "inputDy", rows, pitch, columns);
    const Numbers x = run.ReadRows(3, "inputX", rows, pitch, columns);
    const Numbers variance = run.Read(4, "inputVariance", rows);
    const Numbers mean = run.Read(5, "inputMean", rows);
    const Numbers gamma = run.Read(6, "inputGamma", columns);
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    Numbers gradient = Zeros(rows * pitch);
    Numbers scaled = gradient;
    const auto length = static_cast<double>(columns);
    for (int64_t row = 0; row < rows; ++row) {
        const double rstd = 1.0 / std::sqrt(At(variance, row) + run.Number(0));
        double ofVariance = 0.0;
        double ofMean = 0.0;
        double distances = 0.0;
        for (int64_t at = row * pitch; at < row * pitch + columns; ++at) {
            const double weighted = At(dy, at) * At(gamma, at - row * pitch);
            const double distance = At(x, at) - At(mean, row);
            ofVariance += -0.5 * weighted * distance * rstd * rstd * rstd;
            ofMean -= weighted * rstd;
            distances -= 2.0 * distance;
        }
        ofMean += ofVariance * distances / length;
        for (int64_t at = row * pitch; at < row * pitch + columns; ++at) {
            const double distance = At(x, at) - At(mean, row);
            gradient[static_cast<size_t>(at)] = At(dy, at) * At(gamma, at - row * pitch) * rstd +
                                                ofVariance * 2.0 / length * distance + ofMean / length;
            scaled[static_cast<size_t>(at)] = distance * rstd;
        }
    }
    run.Write(0, "outputPdX", gradient);
    run.Write(1, "resForGamma", scaled);
}

/// Operands: pdGamma, pdBeta, resForGamma, dy. Sizes: rows, pitch, columns.
void SumParameters(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    run.RequireRows(rows, columns, pitch);
    run.RequireBlocks("the last axis", pitch, run.View(0).size);
    const Numbers scaled = run.ReadRows(2, "resForGamma", rows, pitch, columns);
    const Numbers dy = run.ReadRows(3, "inputDy", rows, pitch, columns);
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    Numbers gamma = Zeros(pitch);
    Numbers beta = Zeros(pitch);
    for (int64_t at = 0; at < rows * pitch; ++at) {
        const auto column = static_cast<size_t>(at % pitch);
        if (at % pitch < columns) {
            gamma[column] += At(scaled, at) * At(dy, at);
            beta[column] += At(dy, at);
        }
    }
    run.Write(0, "outputPdGamma", gamma);
    run.Write(1, "outputPdBeta", beta);
}

/// Operands: out, rstd, mean, variance, x, gamma, beta. Sizes: rows, pitch, columns.
void NormalizeWithMoments(Composite& run)
{
    const int64_t rows = run.Size(0);
    const int64_t pitch = run.Size(1);
    const int64_t columns = run.Size(2);
    run.Expect(rows > 0 && columns > 0 && columns <= pitch, "the shape is empty");
    run.RequireBlocks("rLengthWithPadding", pitch, run.View(0).size);
    Numbers x = run.ReadRows(4, "inputX", rows, pitch, columns);
    run.RequireNoOverlap(0, 4, rows * pitch, "inputX");
    const Numbers mean = run.Read(2, "inputMean", rows);
    Numbers rstd = run.Read(3, "inputVariance", rows);
    const Numbers gamma = LoadOr(run, 5, "gamma", columns, 1.0);
    const Numbers beta = LoadOr(run, 6, "beta", columns, 0.0);
    run.TakeTmp(pitch);
    run.Charge(rows * pitch);
    for (int64_t row = 0; row < rows; ++row) {
        double& scale = rstd[static_cast<size_t>(row)];
        scale = 1.0 / std::sqrt(scale + run.Number(0));
        for (int64_t column = 0; column < pitch; ++column) {
            double& value = x[static_cast<size_t>(row * pitch + column)];
            value = column < columns ? (value - At(mean, row)) * scale * At(gamma, column) + At(beta, column) : 0.0;
        }
    }
    run.Write(0, "output", x);
    StoreIf(run, 1, "outputRstd", rstd);
}

/// Operands: mean, variance, old mean, old variance, x. Sizes: elements, elements to compute, rows, in place.
void UpdateWelford(Composite& run)
{
    const int64_t count = run.Size(1);
    run.Expect(count > 0 && count <= run.Size(0), "abComputeLength is not in 1..abLength");
    run.Expect(run.Size(2) == 1, "rnLength is not 1");
    run.RequireBlocks("abLength", run.Size(0), run.View(4).size);
    for (size_t operand = 0; operand < 2 && run.Size(3) == 0; ++operand) {
        run.RequireNoOverlap(operand, operand + 2, count, operand == 0 ? "inputMean" : "inputVariance");
    }
    Numbers mean = run.Read(2, "inputMean", count);
    Numbers variance = run.Read(3, "inputVariance", count);
    const Numbers x = run.Read(4, "inputX", count);
    run.TakeTmp();
    run.Charge(count);
    for (size_t index = 0; index < x.size(); ++index) {
        const double distance = x[index] - mean[index];
        mean[index] += distance * run.Number(0);
        variance[index] += distance * (x[index] - mean[index]);
    }
    run.Write(0, "outputMean", mean);
    run.Write(1, "outputVariance", variance);
}

/// Operands: mean, variance, means, variances, counts. Sizes: elements, counts of head and tail with their lengths.
void FinishWelford(Composite& run)
{
    const int64_t count = run.Size(0);
    const int64_t head = run.Size(2);
    run.RequireBlocks("abLength", count, run.View(2).size);
    run.Expect(run.Has(4) || head + run.Size(4) == count, "headCountLength + tailCountLength is not abLength");
    run.Expect(run.Has(4) || run.Size(3) != 0 || run.Size(4) == 0, "tailCount is 0, but tailCountLength is not 0");
    const Numbers means = run.Read(2, "inputMean", count);
    const Numbers variances = run.Read(3, "inputVariance", count);
    Numbers counts = run.Has(4) ? run.Read(4, "counts", count) : Zeros(count);
    run.TakeTmp();
    run.Charge(count);
    double mean = 0.0;
    for (int64_t index = 0; index < count; ++index) {
        double& samples = counts[static_cast<size_t>(index)];
        samples = run.Has(4) ? samples : static_cast<double>(run.Size(index < head ? 1 : 3));
        mean += At(means, index) * samples * run.Number(0);
    }
    double variance = 0.0;
    for (int64_t index = 0; index < count; ++index) {
        const double distance = At(means, index) - mean;
        variance += (At(variances, index) + At(counts, index) * distance * distance) * run.Number(0);
    }
    run.Write(0, "outputMean", {mean});
    run.Write(1, "outputVariance", {variance});
}

}  // namespace

int64_t RunNorm(Composite& run)
{
    switch (run.Op()) {
        case HighOp::kRmsNorm:
            NormalizeByRoot(run);
            break;
        case HighOp::kBatchNorm:
        case HighOp::kGroupNorm:
            NormalizeGroups(run);
            break;
        case HighOp::kLayerNormGrad:
            Differentiate(run);
            break;
        case HighOp::kLayerNormGradBeta:
            SumParameters(run);
            break;
        case HighOp::kNormalize:
            NormalizeWithMoments(run);
            break;
        case HighOp::kWelfordUpdate:
            UpdateWelford(run);
            break;
        case HighOp::kWelfordFinalize:
            FinishWelford(run);
            break;
        default:
            NormalizeRows(run);
            break;
    }
    return 0;
}

}  // namespace opforge::twin::kernel
