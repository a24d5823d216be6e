#include "kernel/matmul/factor.h"

#include <algorithm>
#include <utility>

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
int64_t PadTo(const MatmulOperand& operand)
{
    return std::max(kFractalRows, ElementsOfBlock(operand));
}

/// Bytes of a part of a row.
int64_t RowBytes(const MatmulOperand& operand, int64_t elements)
{
    return CeilDiv<int64_t>(elements, operand.packed) * operand.size;
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
    return slots * RoundUp<int64_t>(outer, PadTo(operand)) * RowBytes(operand, RoundUp<int64_t>(k, PadTo(operand)));
}

Factor::Factor(Block& block, const MatmulJob& job, Side side, const LocalView& l1, const LocalView& indices,
               const Call& call)
    : block_(block),
      job_(job),
      side_(side),
      operand_(side == Side::kLeft ? job.a : job.b),
      call_(call),
      kIsInner_((side == Side::kLeft) != operand_.isTransposed),
      l1_(l1),
      indices_(indices),
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
    const int64_t pad = PadTo(operand_);
    slotBytes_ = RoundUp<int64_t>(outerStep_, pad) * RowBytes(operand_, RoundUp<int64_t>(kStep_, pad));
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
    int64_t slots = std::max<int64_t>(1, depth / (tilesPerStep_ * kBlocksPerStep_));
    if (CopyFunction() != nullptr) {
        // A copy function of the kernel copies one base block.
        const int64_t bytes = slots * slotBytes_;
        outerStep_ /= std::exchange(tilesPerStep_, 1);
        kStep_ /= std::exchange(kBlocksPerStep_, 1);
        slotBytes_ = RoundUp<int64_t>(outerStep_, pad) * RowBytes(operand_, RoundUp<int64_t>(kStep_, pad));
        slots = std::max<int64_t>(1, bytes / slotBytes_);
    }
    slots_.resize(static_cast<size_t>(slots));
}

MatmulCopyIn Factor::CopyFunction() const
{
    return side_ == Side::kLeft ? job_.copyA : job_.copyB;
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

LocalView Factor::IndicesOf(const Slot& slot) const
{
    return Part(indices_, (&slot - slots_.data()) * slotBytes_ / kBytesPerIndexByte, Dtype::kUint8, 1);
}

int64_t Factor::RowsInL1(int64_t rows) const
{
    const bool hasSquares = operand_.dtype == Dtype::kInt4 && !kIsInner_;
    return RoundUp<int64_t>(rows, hasSquares ? ElementsOfBlock(operand_) : kFractalRows);
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
    const FactorRange range = GroupRange(slot.outerGroup, slot.kGroup);
    CopyIn(ViewOf(slot), range, slot.outerGroup, slot.kGroup);
    if (operand_.isSparse) {
        CopyIndices(IndicesOf(slot), range);
    }
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
    const char* const name = side_ == Side::kLeft ? "A" : "B";
    if (pitch_ % operand_.packed != 0 || column % operand_.packed != 0) {
        block_.Fail("matmul_shape", Pipe::kMte2, call_,
                    Text("rows of ", name, " have ", pitch_, " elements, of which a block starts at ", column,
                         ", expected even numbers for ", operand_.isSparse ? "a sparse factor" : "int4b_t"));
    }
    const int64_t pitchBytes = RowBytes(operand_, pitch_);
    src.address += static_cast<uint64_t>(row * pitchBytes + RowBytes(operand_, column));
    const int64_t height = RowsInL1(rows);
    const int64_t width = CeilDiv<int64_t>(columns, operand_.packed);
    const int64_t pitch = pitch_ / operand_.packed;
    const bool isWide = pitch > kPitchLimit;
    if (isWide && !job_.config.intrinsicsCheck) {
        block_.Fail("matmul_shape", Pipe::kMte2, call_,
                    Text("rows of ", name, " in global memory have ", pitch_, " elements, expected at most ",
                         kPitchLimit, "; set intrinsicsCheck in the MatmulConfig for longer rows"));
    }
    const int64_t most = isWide ? 1 : kRowLimit;
    for (int64_t done = 0; done < rows; done += most) {
        const int64_t count = std::min(most, rows - done);
        CopyInNz(Part(dst, done * kBlockBytes, operand_.dtype, operand_.size), src,
                 {1, count, width, 0, isWide ? width : pitch, height, 1, 0}, call_);
        src.address += static_cast<uint64_t>(count * pitchBytes);
    }
}

void Factor::RequireRows(int64_t used, int64_t stored)
{
    if (used > stored) {
        block_.Fail("matmul_shape", Pipe::kMte2, call_,
                    Text("the product uses ", used, " rows of a matrix that has ", stored,
                         "; pass at least the shape of SetSingleShape to SetOrgShape, or to the tiling"));
    }
}

void Factor::CopyFractals(const LocalView& dst, int64_t row, int64_t rows, int64_t column, int64_t columns)
{
    const int64_t c0 = ElementsOfBlock(operand_);
    const int64_t storedRows = RoundUp<int64_t>(orgRows_, kFractalRows);
    const int64_t height = RowsInL1(rows);
    RequireRows(row + rows, storedRows);
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

void Factor::CopyIndices(const LocalView& dst, const FactorRange& range)
{
    GlobalView src = job_.sparseIndex;
    src.dtype = Dtype::kUint8;
    src.size = 1;
    const int64_t allFractals = CeilDiv<int64_t>(orgRows_, kFractalRows);
    RequireRows(range.outer + range.outerCount, allFractals * kFractalRows);
    const int64_t fractals = CeilDiv<int64_t>(range.outerCount, kFractalRows);
    const int64_t first = range.k / ElementsOfBlock(operand_) * allFractals + range.outer / kFractalRows;
    src.address += static_cast<uint64_t>(first * kIndexBytes);
    kernel::CopyIn(dst, src,
                   {CeilDiv<int64_t>(range.kCount, ElementsOfBlock(operand_)), fractals * kIndexBytes,
                    (allFractals - fractals) * kIndexBytes, 0},
                   nullptr, call_);
}

void Factor::FillScalar(const LocalView& dst, int64_t bytes)
{
    FillConstant(dst, {1, bytes / kBlockBytes, 0}, operand_.scalar, call_);
}

void Factor::CopyIn(const LocalView& dst, const FactorRange& range, int64_t outerGroup, int64_t kGroup)
{
    const bool isLeft = side_ == Side::kLeft;
    if (const MatmulCopyIn copy = CopyFunction(); copy != nullptr) {
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

void Factor::LoadStraight(const LocalView& dst, const LocalView& src, int64_t rows, int64_t outer, int64_t k,
                          int64_t fractals, int64_t blocks)
{
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = (k + block) * (rows / kFractalRows) + outer / kFractalRows;
        const LocalView to = Part(dst, block * fractals * kFractalBytes, operand_.dtype, operand_.size);
        const LocalView from = Part(src, first * kFractalBytes, operand_.dtype, operand_.size);
        if (operand_.isSparse) {
            const LocalView indices = Part(IndicesOf(*current_), first * kIndexBytes, Dtype::kUint8, 1);
            LoadSparse(to, from, indices, 0, fractals, call_);
        } else {
            LoadFractals(to, from, {0, fractals, 1, 0, 0, false}, call_);
        }
    }
}

void Factor::LoadSquares(const LocalView& dst, const LocalView& src, int64_t rows, const FactorRange& inBlock)
{
    const int64_t edge = ElementsOfBlock(operand_);
    const int64_t pieces = edge / kFractalRows;  // fractals of a square
    const int64_t squares = CeilDiv<int64_t>(inBlock.outerCount, edge);
    const int64_t pitch = rows / edge;  // squares in a column of L1
    for (int64_t block = 0; block < CeilDiv<int64_t>(inBlock.kCount, edge); ++block) {
        const int64_t first = inBlock.outer / edge * pitch + inBlock.k / edge + block;
        LoadFractals(Part(dst, block * squares * pieces * kFractalBytes, operand_.dtype, operand_.size), src,
                     {first, squares, pitch, pieces - 1, 0, true, true}, call_);
    }
}

void Factor::LoadL0(const LocalView& dst, const FactorRange& range)
{
    const FactorRange group = GroupRange(current_->outerGroup, current_->kGroup);
    const int64_t c0 = ElementsOfBlock(operand_);
    const int64_t rows = RowsInL1(kIsInner_ ? group.outerCount : group.kCount);
    const int64_t columns = RoundUp<int64_t>(kIsInner_ ? group.kCount : group.outerCount, c0);
    const int64_t outer = range.outer - group.outer;
    const int64_t k = range.k - group.k;
    const LocalView src = Part(ViewOf(*current_), 0, operand_.dtype, operand_.size);
    if (side_ == Side::kRight && kIsInner_) {  // L1 holds the fractals of L0B
        LoadStraight(dst, src, rows, outer, k / c0, CeilDiv<int64_t>(range.outerCount, kFractalRows),
                     CeilDiv<int64_t>(range.kCount, c0));
        return;
    }
    if (operand_.packed != 1 && !kIsInner_) {
        LoadSquares(dst, src, rows, {outer, range.outerCount, k, range.kCount});
        return;
    }
    const bool isTransposed = side_ == Side::kLeft && !kIsInner_;
    if (kIsInner_) {
        LoadWindow(dst, src,
                   {rows, columns / operand_.packed, outer, range.outerCount, k / operand_.packed,
                    RoundUp<int64_t>(range.kCount, c0) / operand_.packed, isTransposed},
                   call_);
    } else {
        LoadWindow(dst, src,
                   {rows, columns, k, range.kCount, outer, RoundUp<int64_t>(range.outerCount, c0), isTransposed},
                   call_);
    }
}

}  // namespace opforge::twin::kernel
