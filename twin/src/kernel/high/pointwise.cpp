// Element-wise high-level functions: the formula of each.
#include <cmath>
#include <limits>

#include "kernel/high/composite.h"

namespace opforge::twin::kernel {

namespace {

/// `x`: the tensors of the row, then its numbers.
using Formula = double (*)(const double* x);

constexpr double kPi = 3.14159265358979323846;
constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = 1.5957691216057308;  // 2 * sqrt(2 / pi)
constexpr double kFasterGeluScale = 1.702;

double Logistic(double x)
{
    return 1.0 / (1.0 + std::exp(-x));
}

double Gelu(double x)
{
    return x * Logistic(kGeluScale * (x + kGeluCubic * x * x * x));
}

double FasterGelu(double x)
{
    return x * Logistic(kFasterGeluScale * x);
}

/// The piecewise quadratic of FasterGeluV2.
double QuadraticGelu(double x)
{
    const double scaled = std::fmin(std::fabs(kSqrtHalf * x), 1.769) - 1.769;
    const double sign = x < 0 ? -1.0 : 1.0;
    return x * (sign * (-0.1444 * scaled * scaled + 0.5) + 0.5);
}

double Digamma(double x)
{
    if (x <= 0 && x == std::floor(x)) {
        return std::numeric_limits<double>::quiet_NaN();
    }
    if (x < 0) {
        return Digamma(1.0 - x) - kPi / std::tan(kPi * x);
    }
    double sum = 0.0;
    for (; x < 10.0; x += 1.0) {
        sum -= 1.0 / x;
    }
    const double inverse = 1.0 / (x * x);
    const double series = inverse * (1.0 / 12 - inverse * (1.0 / 120 - inverse * (1.0 / 252 - inverse / 240)));
    return sum + std::log(x) - 0.5 / x - series;
}

double Sign(double x)
{
    return x > 0 ? 1.0 : x < 0 ? -1.0 : x;
}

double Xor(double a, double b)
{
    return static_cast<double>(static_cast<int64_t>(a) ^ static_cast<int64_t>(b));
}

Formula FormulaOf(HighOp op)
{
    switch (op) {
#define OPFORGE_FORMULA(name, expression) \
    case HighOp::k##name:                 \
        return [](const double* x) -> double { return expression; };
        OPFORGE_FORMULA(Acos, std::acos(x[0]))
        OPFORGE_FORMULA(Acosh, std::acosh(x[0]))
        OPFORGE_FORMULA(Asin, std::asin(x[0]))
        OPFORGE_FORMULA(Asinh, std::asinh(x[0]))
        OPFORGE_FORMULA(Atan, std::atan(x[0]))
        OPFORGE_FORMULA(Atanh, std::atanh(x[0]))
        OPFORGE_FORMULA(Axpy, x[0] * x[2] + x[1])
        OPFORGE_FORMULA(Ceil, std::ceil(x[0]))
        OPFORGE_FORMULA(ClampMax, x[0] > x[1] ? x[1] : x[0])
        OPFORGE_FORMULA(ClampMin, x[0] < x[1] ? x[1] : x[0])
        OPFORGE_FORMULA(Cos, std::cos(x[0]))
        OPFORGE_FORMULA(Cosh, std::cosh(x[0]))
        OPFORGE_FORMULA(Digamma, Digamma(x[0]))
        OPFORGE_FORMULA(Erf, std::erf(x[0]))
        OPFORGE_FORMULA(Erfc, std::erfc(x[0]))
        OPFORGE_FORMULA(Exp, std::exp(x[0]))
        OPFORGE_FORMULA(Floor, std::floor(x[0]))
        OPFORGE_FORMULA(Fmod, std::fmod(x[0], x[1]))
        OPFORGE_FORMULA(Frac, x[0] - std::trunc(x[0]))
        OPFORGE_FORMULA(Lgamma, std::lgamma(x[0]))
        OPFORGE_FORMULA(Log, std::log(x[0]))
        OPFORGE_FORMULA(Log10, std::log10(x[0]))
        OPFORGE_FORMULA(Log2, std::log2(x[0]))
        OPFORGE_FORMULA(Power, std::pow(x[0], x[1]))
        OPFORGE_FORMULA(Round, std::round(x[0]))
        OPFORGE_FORMULA(Sign, Sign(x[0]))
        OPFORGE_FORMULA(Sin, std::sin(x[0]))
        OPFORGE_FORMULA(Sinh, std::sinh(x[0]))
        OPFORGE_FORMULA(Tan, std::tan(x[0]))
        OPFORGE_FORMULA(Tanh, std::tanh(x[0]))
        OPFORGE_FORMULA(Trunc, std::trunc(x[0]))
        OPFORGE_FORMULA(Xor, Xor(x[0], x[1]))
        OPFORGE_FORMULA(FasterGelu, FasterGelu(x[0]))
        OPFORGE_FORMULA(FasterGeluV2, QuadraticGelu(x[0]))
        OPFORGE_FORMULA(GeGLU, x[0] * Gelu(x[1]))
        OPFORGE_FORMULA(Gelu, Gelu(x[0]))
        OPFORGE_FORMULA(ReGlu, x[0] * std::fmax(x[1], 0.0))
        OPFORGE_FORMULA(Sigmoid, Logistic(x[0]))
        OPFORGE_FORMULA(Silu, x[0] * Logistic(x[0]))
        OPFORGE_FORMULA(SwiGLU, x[0] * x[1] * Logistic(x[2] * x[1]))
        OPFORGE_FORMULA(Swish, x[0] * Logistic(x[1] * x[0]))
#undef OPFORGE_FORMULA
        default:
            return nullptr;
    }
}

constexpr const char* kSources[] = {"dst", "src", "src1"};

}  // namespace

int64_t RunPointwise(Composite& run)
{
    const int64_t count = run.Size(0);
    if (count == 0) {
        return 0;
    }
    run.PassUndefined();
    std::vector<Numbers> sources;
    size_t number = 0;
    const bool accumulates = run.Op() == HighOp::kAxpy;
    for (size_t operand = 1; operand < run.Operands(); ++operand) {
        if (run.Has(operand)) {
            sources.push_back(run.Read(operand, kSources[operand], count));
            run.RequireNoOverlap(0, operand, count, kSources[operand]);
        } else {
            sources.emplace_back(static_cast<size_t>(count), run.Number(number++));
        }
    }
    if (accumulates) {
        sources.push_back(run.Read(0, kSources[0], count));
    }
    run.TakeTmp();
    run.Charge(count);
    const Formula formula = FormulaOf(run.Op());
    Numbers results(static_cast<size_t>(count));
    double x[4] = {};
    x[sources.size()] = run.LastNumber();
    for (size_t index = 0; index < results.size(); ++index) {
        for (size_t source = 0; source < sources.size(); ++source) {
            x[source] = sources[source][index];
        }
        results[index] = formula(x);
    }
    run.Write(0, kSources[0], results);
    return 0;
}

}  // namespace opforge::twin::kernel
