#include "kernel/matmul/engine.h"

#include <algorithm>
#include <cstring>

#include "kernel/exec/levels.h"
#include "kernel/cube/fractal.h"
#include "kernel/matmul/factor.h"
#include "kernel/vector/numbers.h"
#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/matmul/matmul.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;
using AscendC::TPosition;

constexpr int64_t kBiasTableBytes = 1024;
constexpr int64_t kBiasId = 2;

bool IsLive(const Block& block, const LocalView& view)
{
    return view.buffer < block.local.buffers.size() && view.generation >= block.local.oldestGeneration &&
           block.local.buffers[view.buffer].generation == view.generation;
}

/// Gives `view` at least `bytes`.
void Reserve(Block& block, LocalView& view, TPosition position, int64_t bytes, const Call& call)
{
    if (bytes > 0 && (!IsLive(block, view) || view.end - view.begin < bytes)) {
        view = AddScratch(LocalView::kNoBuffer, position, bytes, call);
    }
}

MatmulBuffers& BuffersOf(Block& block)
{
    if (block.matmul == nullptr) {
        block.matmul = std::make_shared<MatmulBuffers>();
    }
    return *block.matmul;
}

/// The number of columns that a product computes: transposed squares of int8_t have 32, those of int4b_t have 64.
int64_t ComputedColumns(const MatmulJob& job, int64_t columns)
{
    return job.b.size == 1 && !job.b.isTransposed ? RoundUp<int64_t>(columns, ElementsOfBlock(job.b)) : columns;
}

int64_t TileBytes(const MatmulJob& job)
{
    const int64_t columns = RoundUp<int64_t>(ComputedColumns(job, job.tiling.baseN), kFractalRows);
    return RoundUp<int64_t>(job.tiling.baseM, kFractalRows) * columns * 4;
}

/// Runs tiles of a job: two flags for each pair of pipes, all waited for at the end.
class Run {
public:
    Run(Block& block, MatmulBuffers& buffers, const MatmulJob& job, const Call& call)
        : block_(block),
          job_(job),
          tiling_(job.tiling),
          call_(call),
          buffers_(buffers),
          object_(buffers.objects[job.object]),
          left_(block, job, Factor::Side::kLeft, object_.a1, {}, call),
          right_(block, job, Factor::Side::kRight, object_.b1, object_.indices, call),
          kBlocks_(CeilDiv<int64_t>(job.singleK, tiling_.baseK))
    {
    }

    void All()
    {
        Begin();
        for (int64_t index = 0; index < job_.tiles; ++index) {
            const int64_t slot = job_.stores && job_.multiplies ? index % SlotsOfL0() : 0;
            const MatmulTile tile = TileOf(job_, job_.firstTile + index);
            if (IsLeftOut(tile)) {
                continue;
            }
            const LocalView sums = Sums(slot);
            if (job_.multiplies) {
                Multiplied(tile, index, slot, sums);
            }
            if (job_.stores) {
                Stored(tile, index, slot, sums);
            }
        }
        End();
    }

private:
    /// TrianUpperMatmulPolicy and TrianLowerMatmulPolicy
    bool IsLeftOut(const MatmulTile& tile) const
    {
        return (job_.triangle == MatmulTriangle::kUpper && tile.rowTile > tile.columnTile) ||
               (job_.triangle == MatmulTriangle::kLower && tile.rowTile < tile.columnTile);
    }

    int64_t SlotsOfL0() const { return tiling_.dbL0C == 2 ? 2 : 1; }

    LocalView Sums(int64_t slot) const
    {
        const Dtype dtype = HasIntegers() ? Dtype::kInt32 : Dtype::kFloat32;
        return job_.hasOwnTile ? Part(job_.ownTile, 0, dtype, 4) : Part(object_.co1, slot * TileBytes(job_), dtype, 4);
    }

    /// Sets the flags that mark L0 as free.
    void Begin()
    {
        if (job_.multiplies) {
            for (int64_t id = 0; id < 2; ++id) {
                Set(HardEvent::M_MTE1, id, call_);
            }
            if (HasBias()) {
                Set(HardEvent::M_MTE1, kBiasId, call_);
                Set(HardEvent::MTE1_MTE2, kBiasId, call_);
            }
            if (job_.a.dtype == Dtype::kFloat32) {
                SetHf32(job_.hasHf32, call_);
                SetHf32Truncation(job_.truncatesHf32, call_);
            }
        }
        if (job_.multiplies) {
            for (int64_t slot = 0; slot < SlotsOfL0(); ++slot) {
                Set(HardEvent::FIX_M, slot, call_);
            }
        }
        if (job_.stores && job_.atomic != 0) {
            constexpr AtomicOp ops[] = {AtomicOp::kNone, AtomicOp::kAdd, AtomicOp::kMax, AtomicOp::kMin};
            SetAtomic(ops[job_.atomic > 3 ? 0 : job_.atomic], job_.c.dtype, call_);
        }
    }

    void End()
    {
        if (job_.multiplies) {
            for (int64_t id = 0; id < 2; ++id) {
                Wait(HardEvent::M_MTE1, id, call_);
            }
            if (HasBias()) {
                Wait(HardEvent::M_MTE1, kBiasId, call_);
                Wait(HardEvent::MTE1_MTE2, kBiasId, call_);
            }
            for (int64_t slot = 0; slot < SlotsOfL0(); ++slot) {
                Wait(HardEvent::FIX_M, slot, call_);
            }
            // The next job, or the kernel itself, reuses L1.
            Set(HardEvent::MTE1_MTE2, 0, call_);
            Wait(HardEvent::MTE1_MTE2, 0, call_);
            if (job_.a.dtype == Dtype::kFloat32 && job_.hasHf32) {
                SetHf32(false, call_);
                SetHf32Truncation(false, call_);
            }
        }
        if (job_.stores && job_.atomic != 0) {
            SetAtomic(AtomicOp::kNone, Dtype::kOther, call_);
        }
    }

    bool HasBias() const { return job_.bias.place != MatmulPlace::kNone && !job_.accumulates; }

    void LoadBias(const MatmulTile& tile)
    {
        const int64_t size = job_.bias.size;
        const LocalView c1 = Part(object_.c1, 0, job_.bias.dtype, size);
        Wait(HardEvent::MTE1_MTE2, kBiasId, call_);
        GlobalView src = job_.bias.global;
        src.address += static_cast<uint64_t>(tile.column * size);
        LocalView from = c1;
        if (job_.bias.place == MatmulPlace::kL1) {
            from = Part(job_.bias.local, tile.column * size, job_.bias.dtype, size);
        } else {
            if (ComputedColumns(job_, tile.columns) != tile.columns) {
                FillConstant(c1, {1, (c1.end - c1.begin) / kBlockBytes, 0}, 0, call_);
                block_.ordering.PassBarrier(Pipe::kMte2);
            }
            CopyInNz(c1, src, {1, 1, tile.columns, 0, tile.columns, 1, 1, 0}, call_);
        }
        Set(HardEvent::MTE2_MTE1, kBiasId, call_);
        Wait(HardEvent::MTE2_MTE1, kBiasId, call_);
        Wait(HardEvent::M_MTE1, kBiasId, call_);
        if (size == 4) {
            CopyLocal(Part(buffers_.c2, 0, job_.bias.dtype, 4), from,
                      {1, RoundUp<int64_t>(ComputedColumns(job_, tile.columns) * 4, 64), 0, 0}, call_);
        } else {
            WidenBias(from, tile.columns);
        }
        Set(HardEvent::MTE1_MTE2, kBiasId, call_);
    }

    /// The copy to the bias table converts 2-byte types to float.
    void WidenBias(const LocalView& from, int64_t count)
    {
        const LocalView& to = buffers_.c2;
        block_.execution.Issue(call_);
        block_.checks.Use(from, count * 2, Pipe::kMte1, AccessKind::kRead, kBlockBytes, "bias", call_);
        block_.checks.Touch({Pipe::kMte1, Memory::kOnChip, AccessKind::kRead, from.address, count * 2, "bias", call_});
        block_.checks.Touch({Pipe::kMte1, Memory::kOnChip, AccessKind::kWrite, to.address, count * 4, "bias", call_});
        for (int64_t index = 0; index < count; ++index) {
            const uint8_t* source = block_.local.At(from.address + index * 2);
            const float value =
                job_.bias.dtype == Dtype::kFloat16 ? Load<half>(source) : float{Load<bfloat16_t>(source)};
            std::memcpy(block_.local.At(to.address + index * 4), &value, sizeof(value));
        }
        block_.timeline.RunCube(Pipe::kMte1, static_cast<double>(RoundUp<int64_t>(count * 4, 64)) / 64.0, call_);
    }

    void Multiplied(const MatmulTile& tile, int64_t index, int64_t slot, const LocalView& sums)
    {
        if (HasBias()) {
            LoadBias(tile);
        }
        Wait(HardEvent::FIX_M, slot, call_);
        const bool isPart = job_.onlyBlock >= 0;
        const int64_t first = isPart ? job_.onlyBlock : 0;
        const int64_t end = isPart ? first + 1 : kBlocks_;
        for (int64_t block = first; block < end; ++block) {
            left_.Require(tile.rowTile, block);
            right_.Require(tile.columnTile, block);
            if (!isPart) {
                PrefetchAfter(tile, index, block);
            }
            const int64_t id = step_++ % 2;
            const int64_t k = block * tiling_.baseK;
            const int64_t depth = std::min<int64_t>(tiling_.baseK, job_.singleK - k);
            const LocalView a2 = Half(buffers_.a2, id, tiling_.dbL0A, job_.a);
            const LocalView b2 = Half(buffers_.b2, id, tiling_.dbL0B, job_.b);
            Wait(HardEvent::M_MTE1, id, call_);
            if (tiling_.dbL0A != 2 || tiling_.dbL0B != 2) {  // one buffer: the previous product must have ended
                Wait(HardEvent::M_MTE1, 1 - id, call_);
                Set(HardEvent::M_MTE1, 1 - id, call_);
            }
            left_.LoadL0(a2, {tile.row, tile.rows, k, depth});
            right_.LoadL0(b2, {tile.column, tile.columns, k, depth});
            Set(HardEvent::MTE1_M, id, call_);
            Wait(HardEvent::MTE1_M, id, call_);
            const bool isFirst = block == first && !job_.accumulates;
            const bool startsAtBias = isFirst && HasBias();
            const LocalView bias = Part(buffers_.c2, 0, sums.dtype, 4);
            const bool isWide = job_.a.size == 4 && job_.a.isTransposed;
            // A single row would make the left factor a plain vector.
            const int64_t rows = tile.rows == 1 ? kFractalRows : tile.rows;
            Multiply(sums, a2, b2, startsAtBias ? &bias : nullptr,
                     {rows, ComputedColumns(job_, tile.columns), depth, 0, isWide, startsAtBias,
                      isFirst && !startsAtBias, job_.b.isSparse},
                     call_);
            if (!isFirst || kBlocks_ > 1) {
                block_.ordering.PassBarrier(Pipe::kCube);
            }
            Set(HardEvent::M_MTE1, id, call_);
            if (startsAtBias) {
                Set(HardEvent::M_MTE1, kBiasId, call_);
            }
        }
        if (!job_.stores) {
            Set(HardEvent::FIX_M, slot, call_);
        }
    }

    static LocalView Half(const LocalView& view, int64_t id, int32_t buffers, const MatmulOperand& operand)
    {
        return Part(view, buffers == 2 ? id * (view.end - view.begin) / 2 : 0, operand.dtype, operand.size);
    }

    void PrefetchAfter(const MatmulTile& tile, int64_t index, int64_t block)
    {
        const bool isLast = block + 1 == kBlocks_;
        if (isLast && index + 1 == job_.tiles) {
            return;
        }
        const MatmulTile next = isLast ? TileOf(job_, job_.firstTile + index + 1) : tile;
        if (IsLeftOut(next)) {
            return;
        }
        left_.Prefetch(next.rowTile, isLast ? 0 : block + 1);
        right_.Prefetch(next.columnTile, isLast ? 0 : block + 1);
    }

    void Stored(const MatmulTile& tile, int64_t index, int64_t slot, const LocalView& sums)
    {
        Set(HardEvent::M_FIX, slot, call_);
        Wait(HardEvent::M_FIX, slot, call_);
        if (job_.copyOut != nullptr) {
            CallCopyOut(tile, index, sums);
        } else {
            StoreTile(tile, index, sums);
        }
        if (job_.multiplies) {
            Set(HardEvent::FIX_M, slot, call_);
        }
    }

    int64_t PitchOfC() const
    {
        return job_.storePitch != 0 ? job_.storePitch : job_.orgKc != 0 ? job_.orgKc : job_.orgN;
    }

    /// The position of a tile in C.
    GlobalView PlaceOf(const MatmulTile& tile, int64_t index, bool isFractal, int64_t pitch) const
    {
        GlobalView dst = job_.c.global;
        dst.dtype = job_.c.dtype;
        dst.size = job_.c.size;
        if (job_.isSequential) {
            dst.address += static_cast<uint64_t>(index * tiling_.baseM * tiling_.baseN * job_.c.size);
        } else {
            const int64_t rows = RoundUp<int64_t>(job_.orgM, kFractalRows);
            const int64_t element =
                isFractal ? tile.column * rows + tile.row * FractalColumnsOfC() : tile.row * pitch + tile.column;
            dst.address += static_cast<uint64_t>(element * job_.c.size);
        }
        return dst;
    }

    int64_t FractalColumnsOfC() const { return StoredColumns(job_.config.isEnableChannelSplit, job_.c.size); }

    bool HasIntegers() const { return job_.a.dtype == Dtype::kInt8 || job_.a.dtype == Dtype::kInt4; }

    /// Adds the scales of the columns to a store; they are read before.
    ProductStore Scaled(ProductStore store, const MatmulTile& tile)
    {
        store.isInteger = HasIntegers();
        if (job_.quant == MatmulQuant::kScalar) {
            store.scales = &job_.quantScalar;
        } else if (job_.quant == MatmulQuant::kVector) {
            GlobalView view = job_.quantVector;
            view.address += static_cast<uint64_t>(tile.column * 8);
            const int64_t bytes = tile.columns * 8;
            block_.execution.Issue(call_);
            const uint8_t* from = block_.checks.Resolve(view, view.address, static_cast<uint64_t>(bytes), Pipe::kMte2,
                                                        AccessKind::kRead, "quantTensor", call_);
            block_.checks.Touch({Pipe::kMte2, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(view.address),
                                 bytes, "quantTensor", call_});
            scales_.assign(static_cast<size_t>(RoundUp<int64_t>(tile.columns, kFractalRows)), 0);
            std::memcpy(scales_.data(), from, static_cast<size_t>(bytes));
            block_.accounting.CountRow(view, view.address, static_cast<uint64_t>(bytes), false);
            block_.accounting.EndDma(Pipe::kMte2, call_);
            store.scales = scales_.data();
            store.isScaledByColumn = true;
        }
        const bool isPlain = job_.c.dtype == (HasIntegers() ? Dtype::kInt32 : Dtype::kFloat32);
        const bool isNarrowed = !HasIntegers() && (job_.c.dtype == Dtype::kFloat16 || job_.c.dtype == Dtype::kBfloat16);
        if (store.scales == nullptr && !isPlain && !isNarrowed) {
            block_.Fail("matmul_quant", Pipe::kFix, call_,
                        "C has another type than the sums; call SetQuantScalar or SetQuantVector before the product");
        }
        if (store.scales != nullptr && job_.c.dtype != Dtype::kFloat16 && job_.c.dtype != Dtype::kInt8) {
            block_.Fail("matmul_quant", Pipe::kFix, call_, "a scale maps sums to half or int8_t; C has another type");
        }
        return store;
    }

    uint32_t QuantMode() const
    {
        return job_.c.dtype == Dtype::kFloat16 ? F322F16 : job_.c.dtype == Dtype::kBfloat16 ? F322BF16 : NoQuant;
    }

    /// Sets the sums of the last fractal after the columns of a tile to 0: C in format NZ contains them.
    void ClearPadding(const MatmulTile& tile, int64_t height, const LocalView& sums)
    {
        constexpr int64_t size = 4;
        const int64_t used = tile.columns % kFractalRows;
        const int64_t begin = sums.address + tile.columns / kFractalRows * height * kFractalRows * size;
        for (int64_t row = 0; row < tile.rows; ++row) {
            const int64_t at = begin + (row * kFractalRows + used) * size;
            const int64_t bytes = (kFractalRows - used) * size;
            std::memset(block_.local.At(at), 0, static_cast<size_t>(bytes));
            block_.local.MarkWritten(at, bytes);
        }
    }

    void StoreTile(const MatmulTile& tile, int64_t index, const LocalView& sums)
    {
        const bool isFractal = job_.c.format == CubeFormat::NZ || job_.c.place == MatmulPlace::kL1;
        const int64_t width = FractalColumnsOfC();
        const int64_t height = RoundUp<int64_t>(tile.rows, kFractalRows);
        const int64_t columns =
            isFractal ? RoundUp<int64_t>(tile.columns, std::min(width, kFractalRows)) : tile.columns;
        if (isFractal && tiling_.baseN % width != 0) {
            block_.Fail("matmul_format", Pipe::kFix, call_,
                        Text("C in format NZ has fractals of ", width, " columns; baseN is ", tiling_.baseN,
                             ", expected a multiple"));
        }
        if (columns != tile.columns) {
            ClearPadding(tile, height, sums);
        }
        ProductStore store{tile.rows, columns, height, 0, QuantMode(), job_.config.enableRelu, 0};
        store = Scaled(store, tile);
        store.splitsChannels = isFractal && job_.config.isEnableChannelSplit;
        if (job_.c.place == MatmulPlace::kL1) {
            store.dstStride = RoundUp<int64_t>(job_.singleM, kFractalRows);
            const int64_t element = tile.column * store.dstStride + tile.row * width;
            KeepProduct(Part(job_.c.local, element * job_.c.size, job_.c.dtype, job_.c.size), sums, store, call_);
            return;
        }
        const int64_t alignment = job_.c.format == CubeFormat::ND_ALIGN ? kBlockBytes / job_.c.size : 1;
        const bool isDense = job_.isSequential && job_.storePitch == 0;
        const int64_t pitch = RoundUp<int64_t>(isDense ? tile.columns : PitchOfC(), alignment);
        const int64_t rows = job_.isSequential ? height : RoundUp<int64_t>(job_.orgM, kFractalRows);
        store.dstStride = isFractal ? rows * width * job_.c.size / kBlockBytes : pitch;
        StoreProduct(PlaceOf(tile, index, isFractal, pitch), sums, store, !isFractal, call_);
    }

    void CallCopyOut(const MatmulTile& tile, int64_t index, const LocalView& sums)
    {
        const GlobalView dst = PlaceOf(tile, index, job_.c.format == CubeFormat::NZ, PitchOfC());
        AscendC::DataCopyOutParams params;
        params.cBurstNum = static_cast<uint16_t>(CeilDiv<int64_t>(tile.columns, kFractalRows));
        params.burstLen = static_cast<uint16_t>(tile.rows * kFractalRows * 4 / kBlockBytes);
        params.srcStride = static_cast<uint16_t>(RoundUp<int64_t>(tile.rows, kFractalRows));
        params.dstStride = static_cast<uint32_t>(PitchOfC());
        params.oriNSize = static_cast<uint16_t>(tile.columns);
        params.quantScalar = job_.quantScalar;
        const AscendC::LocalTensor<int8_t> tensor(sums, TPosition::CO1);
        block_.execution.LeaveLibrary();
        job_.copyOut(reinterpret_cast<const __gm__ void*>(static_cast<uintptr_t>(dst.address)), tensor, &params,
                     job_.tilingPointer, job_.dataPointer);
        block_.execution.EnterLibrary();
    }

    Block& block_;
    const MatmulJob& job_;
    const TCubeTiling& tiling_;
    const Call& call_;
    MatmulBuffers& buffers_;
    MatmulBuffers::Object& object_;
    Factor left_;
    Factor right_;
    int64_t kBlocks_;
    std::vector<uint64_t> scales_;
    int64_t step_ = 0;
};

}  // namespace

MatmulTile TileOf(const MatmulJob& job, int64_t index)
{
    const TCubeTiling& tiling = job.tiling;
    const int64_t down = CeilDiv<int64_t>(job.singleM, tiling.baseM);
    const int64_t across = CeilDiv<int64_t>(job.singleN, tiling.baseN);
    const bool isRowFirst = tiling.iterateOrder == 1;
    const int64_t rowTile = isRowFirst ? index / across : index % down;
    const int64_t columnTile = isRowFirst ? index % across : index / down;
    const int64_t row = rowTile * tiling.baseM;
    const int64_t column = columnTile * tiling.baseN;
    return {row,     std::min<int64_t>(tiling.baseM, job.singleM - row),
            column,  std::min<int64_t>(tiling.baseN, job.singleN - column),
            rowTile, columnTile};
}

void RequireTiling(Block& block, const MatmulJob& job, const Call& call)
{
    const TCubeTiling& t = job.tiling;
    const auto require = [&](bool isMet, const std::string& problem) {
        if (!isMet) {
            block.Fail("matmul_tiling", Pipe::kScalar, call,
                       problem + "; use the tiling of GetTiling for this shape, or correct the fields that you set");
        }
    };
    require(t.singleCoreM > 0 && t.singleCoreN > 0 && t.singleCoreK > 0,
            Text("singleCoreM, singleCoreN, singleCoreK are ", t.singleCoreM, ", ", t.singleCoreN, ", ", t.singleCoreK,
                 ", expected positive numbers"));
    require(t.baseM > 0 && t.baseN > 0 && t.baseK > 0 && t.baseM % 16 == 0 && t.baseN % 16 == 0,
            Text("baseM, baseN, baseK are ", t.baseM, ", ", t.baseN, ", ", t.baseK,
                 ", expected positive numbers, baseM and baseN multiples of 16"));
    const bool isDocumented = (t.iterateOrder == 0 || t.iterateOrder == 1) && (t.dbL0C == 1 || t.dbL0C == 2);
    if (!isDocumented && kDocumentedValues.Has(block.launch.options.level)) {
        block.Fail("api_contract", Pipe::kScalar, call,
                   Text("iterateOrder is ", t.iterateOrder, " and dbL0C ", t.dbL0C, ", expected 0 or 1, and 1 or 2"));
    }
    const bool isStraight = !job.a.isTransposed && job.b.isTransposed;
    const int64_t wide = std::max(ElementsOfBlock(job.a), ElementsOfBlock(job.b));
    const int64_t unit = isStraight ? wide : std::max(int64_t{16}, wide);
    require(t.baseK % unit == 0, Text("baseK is ", t.baseK, ", expected a multiple of ", unit));
    require(job.a.dtype != Dtype::kInt4 || job.b.isTransposed || t.baseN % wide == 0,
            Text("baseN is ", t.baseN, ", expected a multiple of ", wide, " for int4b_t without transposition"));
    require(t.depthA1 > 0 && t.depthB1 > 0 && t.stepM > 0 && t.stepN > 0 && t.stepKa > 0 && t.stepKb > 0,
            Text("depthA1, depthB1, stepM, stepN, stepKa, stepKb are ", t.depthA1, ", ", t.depthB1, ", ", t.stepM, ", ",
                 t.stepN, ", ", t.stepKa, ", ", t.stepKb, ", expected positive numbers"));
    require(t.depthA1 % (t.stepM * t.stepKa) == 0 && t.depthB1 % (t.stepN * t.stepKb) == 0,
            Text("depthA1 is ", t.depthA1, " and depthB1 ", t.depthB1, ", expected multiples of stepM * stepKa = ",
                 t.stepM * t.stepKa, " and stepN * stepKb = ", t.stepN * t.stepKb));
    const int64_t left = int64_t{t.baseM} * t.baseK * job.a.size / job.a.packed * (t.dbL0A == 2 ? 2 : 1);
    const int64_t right = int64_t{t.baseN} * t.baseK * job.b.size / job.b.packed * (t.dbL0B == 2 ? 2 : 1);
    const int64_t sums = TileBytes(job) * (t.dbL0C == 2 ? 2 : 1);
    const SocFigures& soc = block.launch.soc;
    require(left <= soc.l0aBytes, Text("baseM * baseK * dbL0A takes ", left, " bytes, L0A has ", soc.l0aBytes));
    require(right <= soc.l0bBytes, Text("baseN * baseK * dbL0B takes ", right, " bytes, L0B has ", soc.l0bBytes));
    require(sums <= soc.l0cBytes, Text("baseM * baseN * dbL0C takes ", sums, " bytes, L0C has ", soc.l0cBytes));
    const int64_t blocks = Factor::BytesInL1(job, Factor::Side::kLeft) + Factor::BytesInL1(job, Factor::Side::kRight);
    const int64_t most = BytesOfL1(soc, block.launch.options.level);
    require(blocks <= most, Text("the blocks of A and B take ", blocks, " bytes, L1 has ", most));
}

void ReserveBuffers(Block& block, const MatmulJob& job, const Call& call)
{
    MatmulBuffers& buffers = BuffersOf(block);
    MatmulBuffers::Object& object = buffers.objects[job.object];
    const SocFigures& soc = block.launch.soc;
    Reserve(block, buffers.a2, TPosition::A2, soc.l0aBytes, call);
    Reserve(block, buffers.b2, TPosition::B2, soc.l0bBytes, call);
    if (job.a.place != MatmulPlace::kL1) {
        Reserve(block, object.a1, TPosition::A1, Factor::BytesInL1(job, Factor::Side::kLeft), call);
    }
    if (job.b.place != MatmulPlace::kL1) {
        Reserve(block, object.b1, TPosition::B1, Factor::BytesInL1(job, Factor::Side::kRight), call);
    }
    if (job.b.isSparse) {
        Reserve(block, object.indices, TPosition::B1, Factor::BytesInL1(job, Factor::Side::kRight) / kBytesPerIndexByte,
                call);
    }
    if (job.bias.place != MatmulPlace::kNone) {
        Reserve(block, buffers.c2, TPosition::C2, kBiasTableBytes, call);
        Reserve(block, object.c1, TPosition::C1, RoundUp<int64_t>(ComputedColumns(job, job.tiling.baseN) * 4, 128),
                call);
    }
    if (!job.hasOwnTile) {
        Reserve(block, object.co1, TPosition::CO1, TileBytes(job) * (job.tiling.dbL0C == 2 ? 2 : 1), call);
    }
}

void RunMatmul(Block& block, const MatmulJob& job, const Call& call)
{
    block.Require(CoreKind::kCube, call);
    ReserveBuffers(block, job, call);
    block.execution.EnterLibrary();
    Run(block, BuffersOf(block), job, call).All();
    block.execution.LeaveLibrary();
}

}  // namespace opforge::twin::kernel
