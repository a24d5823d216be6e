// Chooses tiles: the part of each core, the block of one product, and the blocks in L1.
#include <algorithm>

#include "kernel/cube/fractal.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/host/matmul_tiling.h"

namespace matmul_tiling {

namespace {

constexpr int32_t kFractal = 16;
constexpr int32_t kBlockSize = 32;
constexpr int32_t kSumBytes = 4;
constexpr int32_t kMostBase = 256;
constexpr int32_t kMostSplitsOfK = 8;

int32_t BytesOf(DataType type)
{
    switch (type) {
        case DataType::DT_INT4:
        case DataType::DT_INT8:
        case DataType::DT_UINT8:
            return 1;
        case DataType::DT_FLOAT16:
        case DataType::DT_BF16:
        case DataType::DT_BFLOAT16:
        case DataType::DT_INT16:
        case DataType::DT_UINT16:
            return 2;
        default:
            return 4;
    }
}

bool IsFactor(DataType type)
{
    return type == DataType::DT_FLOAT || type == DataType::DT_FLOAT16 || type == DataType::DT_BF16 ||
           type == DataType::DT_BFLOAT16 || type == DataType::DT_INT8 || type == DataType::DT_INT4;
}

/// Bytes of elements of a factor; `isSparse`: it has two of four elements.
int64_t BytesOf(DataType type, int64_t elements, bool isSparse = false)
{
    return elements * BytesOf(type) / (type == DataType::DT_INT4 || isSparse ? 2 : 1);
}

/// The elements of k, and of rows of a factor, that form a unit.
int32_t UnitOf(DataType type, bool isSparse)
{
    const int32_t block = kBlockSize / BytesOf(type) * (type == DataType::DT_INT4 || isSparse ? 2 : 1);
    return std::max(kFractal, block);
}

bool IsInUnifiedBuffer(TPosition position)
{
    return position == TPosition::VECIN || position == TPosition::VECOUT || position == TPosition::VECCALC;
}

int32_t Limited(int32_t value, int32_t least, int32_t most)
{
    value = most > 0 ? std::min(value, most) : value;
    return least > 0 ? std::max(value, least) : value;
}

}  // namespace

int32_t MatmulApiTilingBase::PartOf(int32_t total, int32_t parts, int32_t base, int32_t align, int32_t least,
                                    int32_t most) const
{
    const int32_t part = opforge::twin::RoundUp(opforge::twin::CeilDiv(total, parts), std::max(base, align));
    return std::min(total, Limited(part, least, most));
}

/// The fewest base blocks that the busiest core has; with a free choice of the base block, the least traffic,
/// then the most parts of M. Equal parts are preferred: with others, the busiest core must have less than 2/3 of the
/// blocks.
bool MatmulApiTilingBase::ChooseParts()
{
    const int32_t m = shape_.m > 0 ? shape_.m : orgM_;
    const int32_t n = shape_.n > 0 ? shape_.n : orgN_;
    const int32_t k = shape_.k > 0 ? shape_.k : std::min(orgKa_, orgKb_);
    if (m <= 0 || n <= 0 || k <= 0 || cores_ <= 0) {
        return false;
    }
    const bool isFixed = fixedBase_.m > 0 || fixedBase_.n > 0;
    const int32_t unitM = fixedBase_.m > 0 ? fixedBase_.m : kFractal;
    const int32_t unitN = fixedBase_.n > 0 ? fixedBase_.n : kFractal;
    int64_t leastWork = -1;
    int64_t leastTraffic = -1;
    for (int32_t down = 1; down <= cores_; ++down) {
        for (int32_t across = 1; across <= cores_ / down; ++across) {
            const int32_t partM =
                single_.m > 0 ? single_.m : PartOf(m, down, unitM, alignment_.m, leastSingle_.m, mostSingle_.m);
            const int32_t partN =
                single_.n > 0 ? single_.n : PartOf(n, across, unitN, alignment_.n, leastSingle_.n, mostSingle_.n);
            const int32_t usedM = opforge::twin::CeilDiv(m, partM);
            const int32_t usedN = opforge::twin::CeilDiv(n, partN);
            const bool isBound = single_.m > 0 || single_.n > 0 || tiling_.BatchNum > 0;
            if (usedM * usedN > cores_ && !isBound) {
                continue;
            }
            const int64_t blocks = int64_t{opforge::twin::CeilDiv(partM, unitM)} * opforge::twin::CeilDiv(partN, unitN);
            const bool isEqual = m % partM == 0 && n % partN == 0;
            const int64_t work = blocks * (isEqual ? 2 : 3);
            const int64_t traffic = isFixed ? usedM : int64_t{partM} + partN;
            const bool isBetter = traffic < leastTraffic || (traffic == leastTraffic && !isFixed);
            if (leastWork < 0 || work < leastWork || (work == leastWork && isBetter)) {
                leastWork = work;
                leastTraffic = traffic;
                tiling_.singleCoreM = partM;
                tiling_.singleCoreN = partN;
                coresM_ = usedM;
                coresN_ = usedN;
            }
        }
    }
    tiling_.singleCoreK = single_.k > 0 ? single_.k : k;
    int32_t coresK = 1;
    if (splitsK_ && single_.k <= 0) {
        const int32_t parts = std::clamp(cores_ / std::max(1, coresM_ * coresN_), 1, kMostSplitsOfK);
        tiling_.singleCoreK = PartOf(k, parts, kFractal, alignment_.k, leastSingle_.k, mostSingle_.k);
    }
    coresK = opforge::twin::CeilDiv(k, tiling_.singleCoreK);
    tiling_.usedCoreNum = tiling_.BatchNum > 0 ? cores_ : coresM_ * coresN_ * coresK;
    tiling_.M = orgM_ > 0 ? orgM_ : m;
    tiling_.N = orgN_ > 0 ? orgN_ : n;
    tiling_.Ka = orgKa_ > 0 ? orgKa_ : k;
    tiling_.Kb = orgKb_ > 0 ? orgKb_ : k;
    return leastWork >= 0;
}

/// The largest block whose sums fit L0C and whose factors fit half of L0A and L0B; square blocks move least.
bool MatmulApiTilingBase::ChooseBase()
{
    const int32_t unitK = UnitOf(a_.dataType, isSparse_);
    const int32_t unitN = a_.dataType == DataType::DT_INT4 ? unitK : kFractal;  // squares of 64 columns
    const int32_t wholeM = opforge::twin::RoundUp(tiling_.singleCoreM, kFractal);
    const int32_t wholeN = opforge::twin::RoundUp(tiling_.singleCoreN, UnitOf(a_.dataType, false));
    const int64_t sums = l0cLimit_ / (hasDoubleSums_ ? 2 : 1);
    const bool isLocal = IsInUnifiedBuffer(c_.pos);
    double best = -1.0;
    for (int32_t m = kFractal; m <= std::min(wholeM, kMostBase); m += kFractal) {
        const int32_t baseM = fixedBase_.m > 0 ? fixedBase_.m : m;
        for (int32_t n = unitN; n <= std::min(wholeN, kMostBase); n += unitN) {
            const int32_t baseN = fixedBase_.n > 0 ? fixedBase_.n : n;
            const int64_t area = int64_t{baseM} * baseN;
            const bool fits = area * kSumBytes <= sums && (!isLocal || area * BytesOf(c_.dataType) <= ubLimit_) &&
                              BytesOf(a_.dataType, int64_t{baseM} * unitK) <= l0aBytes_ &&
                              BytesOf(b_.dataType, int64_t{baseN} * unitK, isSparse_) <= l0bBytes_;
            const bool isInRange = baseM == Limited(baseM, leastBase_.m, mostBase_.m) &&
                                   baseN == Limited(baseN, leastBase_.n, mostBase_.n);
            // Blocks that do not divide the part compute padding.
            const double padded = static_cast<double>(opforge::twin::RoundUp(tiling_.singleCoreM, baseM)) *
                                  opforge::twin::RoundUp(tiling_.singleCoreN, baseN);
            const double used = static_cast<double>(tiling_.singleCoreM) * tiling_.singleCoreN / padded;
            const double score = used * static_cast<double>(area) / (baseM + baseN);
            if (fits && isInRange && score > best) {
                best = score;
                tiling_.baseM = baseM;
                tiling_.baseN = baseN;
            }
        }
    }
    if (best < 0.0 || tiling_.baseM % kFractal != 0 || tiling_.baseN % kFractal != 0) {
        return false;
    }
    // A unit of k in L0, of which there are two buffers.
    const int64_t unitA = 2 * BytesOf(a_.dataType, int64_t{tiling_.baseM} * unitK);
    const int64_t unitB = 2 * BytesOf(b_.dataType, int64_t{tiling_.baseN} * unitK, isSparse_);
    const int64_t mostK = std::min(l0aBytes_ / unitA, l0bBytes_ / unitB) * unitK;
    int32_t baseK =
        fixedBase_.k > 0 ? fixedBase_.k : static_cast<int32_t>(opforge::twin::RoundDown<int64_t>(mostK, unitK));
    baseK = std::min(baseK, opforge::twin::RoundUp(tiling_.singleCoreK, unitK));
    tiling_.baseK = std::max(unitK, opforge::twin::RoundDown(Limited(baseK, leastBase_.k, mostBase_.k), unitK));
    return true;
}

/// As many blocks of k in L1 as fit twice.
void MatmulApiTilingBase::ChooseBlocks()
{
    const int64_t unit = UnitOf(a_.dataType, isSparse_);
    const int64_t depth = opforge::twin::RoundUp<int64_t>(tiling_.baseK, unit);
    const int64_t left = BytesOf(a_.dataType, opforge::twin::RoundUp<int64_t>(tiling_.baseM, unit) * depth);
    const int64_t factor =
        BytesOf(b_.dataType, opforge::twin::RoundUp<int64_t>(tiling_.baseN, unit) * depth, isSparse_);
    const int64_t right =
        isSparse_ ? factor + factor / opforge::twin::kernel::kBytesPerIndexByte : factor;  // with the indices
    const int64_t bias = hasBias_ ? int64_t{tiling_.baseN} * kSumBytes : 0;
    const int64_t leftShare = a_.pos == TPosition::TSCM ? 0 : left;
    const int64_t rightShare = b_.pos == TPosition::TSCM ? 0 : right;
    const int32_t all = opforge::twin::CeilDiv(tiling_.singleCoreK, tiling_.baseK);
    int32_t step = all;
    const int64_t share = leftShare + rightShare;
    while (step > 1 && 2 * share * step + bias > l1Limit_) {
        --step;
    }
    for (int32_t equal = step; 2 * equal > step; --equal) {
        if (all % equal == 0) {
            step = equal;  // each load of L1 has the same number of blocks
            break;
        }
    }
    const int32_t buffers = 2 * share * step + bias <= l1Limit_ ? 2 : 1;
    tiling_.stepM = 1;
    tiling_.stepN = 1;
    tiling_.stepKa = step;
    tiling_.stepKb = step;
    tiling_.depthA1 = buffers * step;
    tiling_.depthB1 = buffers * step;
    tiling_.dbL0A = 2 * BytesOf(a_.dataType, int64_t{tiling_.baseM} * tiling_.baseK) <= l0aBytes_ ? 2 : 1;
    tiling_.dbL0B = 2 * BytesOf(b_.dataType, int64_t{tiling_.baseN} * tiling_.baseK, isSparse_) <= l0bBytes_ ? 2 : 1;
    tiling_.dbL0C = hasDoubleSums_ ? 2 : 1;
    tiling_.isBias = hasBias_ ? 1 : 0;
    tiling_.iterateOrder = traverse_ == MatrixTraverse::FIRSTN ? 1 : 0;
    const int32_t area = tiling_.baseM * tiling_.baseN;
    tiling_.transLength = IsInUnifiedBuffer(c_.pos) ? area * BytesOf(c_.dataType) : 0;
    tiling_.shareL1Size = static_cast<int32_t>(share * step * buffers + bias);
    tiling_.shareL0CSize = area * kSumBytes * tiling_.dbL0C;
    tiling_.shareUbSize = 0;
    tiling_.batchM = tiling_.batchN = tiling_.singleBatchM = tiling_.singleBatchN = 1;
}

bool MatmulApiTilingBase::Choose()
{
    const bool isKnown = IsFactor(a_.dataType) && BytesOf(a_.dataType) == BytesOf(b_.dataType) &&
                         (a_.dataType == DataType::DT_INT4) == (b_.dataType == DataType::DT_INT4) &&
                         (!isSparse_ || a_.dataType == DataType::DT_INT8);
    if (!isKnown || !ChooseParts() || !ChooseBase()) {
        return false;
    }
    ChooseBlocks();
    return tiling_.shareL1Size <= l1Limit_ &&
           BytesOf(a_.dataType, int64_t{tiling_.baseM} * tiling_.baseK) <= l0aBytes_ &&
           BytesOf(b_.dataType, int64_t{tiling_.baseN} * tiling_.baseK, isSparse_) <= l0bBytes_;
}

}  // namespace matmul_tiling
