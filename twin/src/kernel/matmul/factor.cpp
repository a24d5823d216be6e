#include "kernel/matmul/factor.h"

#include <algorithm>

#include "kernel/cube/fractal.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/data_copy.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

constexpr int64_t kRowLimit = 16384;    // nValue of a DataCopy to fractals
constexpr int64_t kPitchLimit = 65535;  // srcDValue and dValue

int64_t BlockOfK(const MatmulJob& job)
{
    return job.tiling.baseK;
}

/// Rows and columns of a block in L1 are padded to whole fractals and to whole squares.
int64_t PadTo(int64_t size)
{
    return std::max(kFractalRows, kBlockBytes / size);
}

}  // namespace

LocalView Part(const LocalView& view, int64_t offset, Dtype dtype, int64_t size)
{
    LocalView part = view;
    part.address += offset;
    part.dtype = dtype;
    part.size = static_cast<int32_t>(size);
    return part;
}

int64_t Factor::BytesInL1(const MatmulJob& job, Side side)
{
    const TCubeTiling& tiling = job.tiling;
    const bool isLeft = side == Side::kLeft;
    const MatmulOperand& operand = isLeft ? job.a : job.b;
    const int64_t outer = isLeft ? int64_t{tiling.baseM} * tiling.stepM : int64_t{tiling.baseN} * tiling.stepN;
    const int64_t steps = isLeft ? int64_t{tiling.stepM} * tiling.stepKa : int64_t{tiling.stepN} * tiling.stepKb;
    const int64_t k = int64_t{tiling.baseK} * (isLeft ? tiling.stepKa : tiling.stepKb);
    const int64_t slots = std::max<int64_t>(1, (isLeft ? tiling.depthA1 : tiling.depthB1) / steps);
    return slots * RoundUp<int64_t>(outer, PadTo(operand.size)) * RoundUp<int64_t>(k, PadTo(operand.size)) *
           operand.size;
}

Factor::Factor(Block& block, const MatmulJob& job, Side side, const LocalView& l1, const Call& call)
    : block_(block),
      job_(job),
      side_(side),
      operand_(side == Side::kLeft ? job.a : job.b),
      call_(call),
      kIsInner_((side == Side::kLeft) != operand_.isTransposed),
      l1_(l1),
      loadedId_(side == Side::kLeft ? 0 : 1),
      freedId_(loadedId_)
{
    const TCubeTiling& tiling = job.tiling;
    const bool isLeft = side == Side::kLeft;
    single_ = isLeft ? job.singleM : job.singleN;
    tilesPerStep_ = isLeft ? tiling.stepM : tiling.stepN;
    outerStep_ = tilesPerStep_ * (isLeft ? tiling.baseM : tiling.baseN);
    kBlocksPerStep_ = isLeft ? tiling.stepKa : tiling.stepKb;
    kStep_ = kBlocksPerStep_ * BlockOfK(job);
    const int64_t orgOuter = isLeft ? job.orgM : job.orgN;
    const int64_t orgK = isLeft ? job.orgKa : job.orgKb;
    const int64_t given = isLeft ? job.pitchA : job.pitchB;
    pitch_ = given != 0 ? given : kIsInner_ ? orgK : orgOuter;
    const int64_t rows = isLeft ? job.rowsA : job.rowsB;
    orgRows_ = rows != 0 ? rows : kIsInner_ ? orgOuter : orgK;
    const int64_t pad = PadTo(operand_.size);
    slotBytes_ = RoundUp<int64_t>(outerStep_, pad) * RoundUp<int64_t>(kStep_, pad) * operand_.size;
    if (operand_.place == MatmulPlace::kL1) {
        // The tensor of the kernel has the whole factor.
        tilesPerStep_ = CeilDiv<int64_t>(single_, isLeft ? tiling.baseM : tiling.baseN);
        outerStep_ = single_;
        kBlocksPerStep_ = CeilDiv<int64_t>(job.singleK, BlockOfK(job));
        kStep_ = job.singleK;
        slots_.resize(1);
        slots_[0].outerGroup = 0;
        slots_[0].kGroup = 0;
        return;
    }
    const int64_t depth = isLeft ? tiling.depthA1 : tiling.depthB1;
    slots_.resize(static_cast<size_t>(std::max<int64_t>(1, depth / (tilesPerStep_ * kBlocksPerStep_))));
}

FactorRange Factor::GroupRange(int64_t outerGroup, int64_t kGroup) const
{
    const int64_t outer = outerGroup * outerStep_;
    const int64_t k = kGroup * kStep_;
    return {outer, std::min(outerStep_, single_ - outer), k, std::min(kStep_, job_.singleK - k)};
}

LocalView Factor::ViewOf(const Slot& slot) const
{
    if (operand_.place == MatmulPlace::kL1) {
        return operand_.local;
    }
    return Part(l1_, (&slot - slots_.data()) * slotBytes_, operand_.dtype, operand_.size);
}

Factor::Slot* Factor::Find(int64_t outerTile, int64_t kBlock)
{
    for (Slot& slot : slots_) {
        if (slot.outerGroup == outerTile / tilesPerStep_ && slot.kGroup == kBlock / kBlocksPerStep_) {
            return &slot;
        }
    }
    return nullptr;
}

Factor::Slot& Factor::Load(int64_t outerTile, int64_t kBlock)
{
    Slot& slot = *std::min_element(slots_.begin(), slots_.end(),
                                   [](const Slot& left, const Slot& right) { return left.used < right.used; });
    // All previous loads to L0 have read the block that this one replaces.
    Set(HardEvent::MTE1_MTE2, freedId_, call_);
    Wait(HardEvent::MTE1_MTE2, freedId_, call_);
    slot.outerGroup = outerTile / tilesPerStep_;
    slot.kGroup = kBlock / kBlocksPerStep_;
    slot.used = ++uses_;
    CopyIn(ViewOf(slot), GroupRange(slot.outerGroup, slot.kGroup), slot.outerGroup, slot.kGroup);
    Set(loaded_, loadedId_, call_);
    slot.isPending = true;
    return slot;
}

void Factor::Require(int64_t outerTile, int64_t kBlock)
{
    Slot* slot = Find(outerTile, kBlock);
    current_ = slot != nullptr ? slot : &Load(outerTile, kBlock);
    current_->used = ++uses_;
    if (current_->isPending) {
        Wait(loaded_, loadedId_, call_);
        current_->isPending = false;
    }
}

void Factor::Prefetch(int64_t outerTile, int64_t kBlock)
{
    const bool isBusy = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.isPending; });
    if (slots_.size() > 1 && !isBusy && Find(outerTile, kBlock) == nullptr) {
        Load(outerTile, kBlock);
    }
}

void Factor::CopyRows(const LocalView& dst, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    GlobalView src = operand_.global;
    src.dtype = operand_.dtype;
    src.size = operand_.size;
    const auto size = static_cast<uint64_t>(operand_.size);
    src.address += static_cast<uint64_t>(row * pitch_ + column) * size;
    const int64_t height = RoundUp<int64_t>(rows, kFractalRows);
    const bool isWide = pitch_ > kPitchLimit;
    if (isWide && !job_.config.intrinsicsCheck) {
        block_.Fail("matmul_shape", Pipe::kMte2, call_,
                    Text("rows of ", side_ == Side::kLeft ? "A" : "B", " in global memory have ", pitch_,
                         " elements, expected at most ", kPitchLimit,
                         "; set intrinsicsCheck in the MatmulConfig for longer rows"));
    }
    const int64_t most = isWide ? 1 : kRowLimit;
    for (int64_t done = 0; done < rows; done += most) {
        const int64_t count = std::min(most, rows - done);
        CopyInNz(Part(dst, done * kBlockBytes, operand_.dtype, operand_.size), src,
                 {1, count, columns, 0, isWide ? columns : pitch_, height, 1, 0}, call_);
        src.address += static_cast<uint64_t>(count * pitch_) * size;
    }
}

void Factor::CopyFractals(const LocalView& dst, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const int64_t c0 = kBlockBytes / operand_.size;
    const int64_t storedRows = RoundUp<int64_t>(orgRows_, kFractalRows);
    const int64_t height = RoundUp<int64_t>(rows, kFractalRows);
    if (column % c0 != 0) {
        block_.Fail(
            "matmul_shape", Pipe::kMte2, call_,
            Text("a block of a matrix in format NZ starts at column ", column, ", expected a multiple of ", c0));
    }
    GlobalView src = operand_.global;
    src.dtype = operand_.dtype;
    src.size = operand_.size;
    src.address += static_cast<uint64_t>((column / c0 * storedRows + row) * kBlockBytes);
    const int64_t copied = std::min(height, storedRows - row);
    kernel::CopyIn(dst, src,
                   {CeilDiv<int64_t>(columns, c0), copied * kBlockBytes, (storedRows - copied) * kBlockBytes,
                    (height - copied) * kBlockBytes},
                   nullptr, call_);
}

void Factor::FillScalar(const LocalView& dst, int64_t bytes)
{
    FillConstant(dst, {1, bytes / kBlockBytes, 0}, operand_.scalar, call_);
}

void Factor::CopyIn(const LocalView& dst, const FactorRange& range, int64_t outerGroup, int64_t kGroup)
{
    const bool isLeft = side_ == Side::kLeft;
    if (const MatmulCopyIn copy = isLeft ? job_.copyA : job_.copyB; copy != nullptr) {
        const AscendC::LocalTensor<int8_t> tensor(dst, isLeft ? AscendC::TPosition::A1 : AscendC::TPosition::B1);
        const auto* gm = reinterpret_cast<const __gm__ void*>(static_cast<uintptr_t>(operand_.global.address));
        const auto outer = static_cast<int>(range.outerCount);
        const auto k = static_cast<int>(range.kCount);
        block_.execution.LeaveLibrary();
        if (isLeft) {
            copy(tensor, gm, static_cast<int>(outerGroup), static_cast<int>(kGroup), outer, k, job_.tilingPointer,
                 job_.dataPointer);
        } else {
            copy(tensor, gm, static_cast<int>(kGroup), static_cast<int>(outerGroup), k, outer, job_.tilingPointer,
                 job_.dataPointer);
        }
        block_.execution.EnterLibrary();
        return;
    }
    const int64_t row = kIsInner_ ? range.outer : range.k;
    const int64_t rows = kIsInner_ ? range.outerCount : range.kCount;
    const int64_t column = kIsInner_ ? range.k : range.outer;
    const int64_t columns = kIsInner_ ? range.kCount : range.outerCount;
    if (operand_.place == MatmulPlace::kScalar) {
        FillScalar(dst, RoundUp<int64_t>(rows, kFractalRows) * RoundUp<int64_t>(columns, kBlockBytes / operand_.size) *
                            operand_.size);
    } else if (operand_.format == CubeFormat::NZ) {
        CopyFractals(dst, row, rows, column, columns);
    } else {
        CopyRows(dst, row, rows, column, columns);
    }
}

void Factor::LoadL0(const LocalView& dst, const FactorRange& range)
{
    const FactorRange group = GroupRange(current_->outerGroup, current_->kGroup);
    const int64_t c0 = kBlockBytes / operand_.size;
    const int64_t rows = RoundUp<int64_t>(kIsInner_ ? group.outerCount : group.kCount, kFractalRows);
    const int64_t columns = RoundUp<int64_t>(kIsInner_ ? group.kCount : group.outerCount, c0);
    const int64_t outer = range.outer - group.outer;
    const int64_t k = range.k - group.k;
    const LocalView src = Part(ViewOf(*current_), 0, operand_.dtype, operand_.size);
    if (side_ == Side::kRight && kIsInner_) {  // L1 holds the fractals of L0B
        const int64_t fractals = CeilDiv<int64_t>(range.outerCount, kFractalRows);
        for (int64_t block = 0; block < CeilDiv<int64_t>(range.kCount, c0); ++block) {
            const int64_t from = (k / c0 + block) * rows * kBlockBytes + outer * kBlockBytes;
            LoadFractals(Part(dst, block * fractals * kFractalBytes, operand_.dtype, operand_.size),
                         Part(src, from, operand_.dtype, operand_.size), {0, fractals, 1, 0, 0, false}, call_);
        }
        return;
    }
    const bool isTransposed = side_ == Side::kLeft && !kIsInner_;
    if (kIsInner_) {
        LoadWindow(dst, src,
                   {rows, columns, outer, range.outerCount, k, RoundUp<int64_t>(range.kCount, c0), isTransposed},
                   call_);
    } else {
        LoadWindow(dst, src,
                   {rows, columns, k, range.kCount, outer, RoundUp<int64_t>(range.outerCount, c0), isTransposed},
                   call_);
    }
}

}  // namespace opforge::twin::kernel
