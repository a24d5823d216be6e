// Copies on a cube core: global memory to L1, L1 to L0A, L0B and the bias table.
#include <algorithm>
#include <cstring>

#include "opforge_twin/arithmetic.h"
#include "kernel/dma/dma.h"
#include "kernel/cube/cube_load.h"
#include "kernel/cube/fractal.h"
#include "kernel/timing/time_model.h"
#include "kernel/exec/levels.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kBiasBlockBytes = 64;
constexpr int64_t kScaleBlockBytes = 128;

/// The destination of the columns of fractals of a row of global memory.
void ScatterRow(Block& block, const uint8_t* from, uint64_t address, int64_t bytes, int64_t to, int64_t columnStride,
                const Call& call)
{
    for (int64_t done = 0; done < bytes && block.launch.computes; done += kBlockBytes, to += columnStride) {
        const int64_t piece = std::min(kBlockBytes, bytes - done);
        uint8_t* block32 = block.local.At(to);
        std::memcpy(block32, from + done, static_cast<size_t>(piece));
        std::memset(block32 + piece, 0, static_cast<size_t>(kBlockBytes - piece));
        block.checks.CopyUndefined(address + static_cast<uint64_t>(done), piece, to, call);
    }
}

/// Copies the element at `from` to `to`; both count elements.
template <typename T>
void CopyElement(uint8_t* dst, int64_t to, const uint8_t* src, int64_t from)
{
    std::memcpy(dst + to * static_cast<int64_t>(sizeof(T)), src + from * static_cast<int64_t>(sizeof(T)), sizeof(T));
}

/// Half bytes: the first of two elements is in the low bits.
void CopyHalfByte(uint8_t* dst, int64_t to, const uint8_t* src, int64_t from)
{
    const auto value = static_cast<uint8_t>(src[from / 2] >> from % 2 * 4 & 0xF);
    const auto keeps = static_cast<uint8_t>(to % 2 == 0 ? 0xF0 : 0x0F);
    dst[to / 2] = static_cast<uint8_t>((dst[to / 2] & keeps) | value << to % 2 * 4);
}

/// The state of a byte is that of its elements; the first one is copied first.
void CopyHalfState(uint8_t* dst, int64_t to, const uint8_t* src, int64_t from)
{
    if (to % 2 == 0 || dst[to / 2] == LocalMemory::kWritten) {
        dst[to / 2] = src[from / 2];
    }
}

/// Transposes a square of fractals; `columns` is the number of elements in 32 bytes. The fractals of dst are
/// `fractalPitch` bytes apart.
template <auto copy>
void TransposeSquare(uint8_t* dst, const uint8_t* src, int64_t columns, int64_t fractalPitch)
{
    const int64_t side = std::max(columns, kFractalRows);
    const int64_t elements = kFractalRows * columns;
    const auto fractal = [&](int64_t row, int64_t column) {
        return columns < kFractalRows ? column / columns : row / kFractalRows;
    };
    const auto inside = [&](int64_t row, int64_t column) { return row % kFractalRows * columns + column % columns; };
    for (int64_t row = 0; row < side; ++row) {
        for (int64_t column = 0; column < side; ++column) {
            copy(dst + fractal(column, row) * fractalPitch, inside(column, row), src,
                 fractal(row, column) * elements + inside(row, column));
        }
    }
}

/// A DMA for each column of 32 bytes; zeros fill the last one.
void CopyColumns(const LocalView& dst, const GlobalView& src, const NzCopy& copy, const Call& call)
{
    const int64_t rowBytes = copy.columns * src.size;
    for (int64_t matrix = 0; matrix < copy.matrices; ++matrix) {
        for (int64_t done = 0; done < rowBytes; done += kBlockBytes) {
            const int64_t bytes = std::min(kBlockBytes, rowBytes - done);
            LocalView to = dst;
            to.address += matrix * copy.dstMatrixStride * src.size + done * copy.dstColumnStride;
            GlobalView from = src;
            from.address += static_cast<uint64_t>(matrix * copy.srcMatrixStride * src.size + done);
            const Rows rows{copy.rows, bytes, copy.srcRowStride * src.size - bytes,
                            (copy.dstRowStride - 1) * kBlockBytes};
            const Padding padding{true, 0, (kBlockBytes - bytes) / src.size, 0};
            CopyIn(to, from, rows, bytes == kBlockBytes ? nullptr : &padding, call);
        }
    }
}

int64_t FractalsOfUnit(const LocalView& src, const FractalLoad& load)
{
    return !load.isTransposed || src.size == 2 ? 1 : load.isHalfByte ? 4 : 2;
}

}  // namespace

LocalUnit::Id RequireL0(Block& block, const LocalView& dst, const Call& call)
{
    const LocalUnit& unit = block.checks.UnitOf(dst, Pipe::kMte1, "dst", call);
    if (!unit.IsL0()) {
        block.Fail("position", Pipe::kMte1, call,
                   Text("dst is in ", unit.name, ", expected L0A (TPosition::A2) or L0B (TPosition::B2)"));
    }
    return unit.id;
}

void ChargeLoad(Block& block, const LocalView& dst, int64_t bytes, const Call& call, Pipe pipe)
{
    const bool isL0A = block.local.UnitOf(dst.begin).id == LocalUnit::Id::kL0A;
    const double rate = isL0A ? time_model::kL1ToL0aBytesPerCycle : time_model::kL1ToL0bBytesPerCycle;
    block.timeline.RunCube(pipe, time_model::kL1LoadIssueCycles + static_cast<double>(bytes) / rate, call);
}

void NoteLoad(Block& block, int64_t address, int64_t bytes, const Call& call)
{
    block.checks.TouchOrder({Pipe::kMte1, Memory::kOnChip, AccessKind::kRead, address, bytes, "src", call});
}

void CopyInNz(const LocalView& dst, const GlobalView& src, const NzCopy& copy, const Call& call)
{
    const Entry block(call);
    const LocalUnit::Id memory = block->checks.UnitOf(dst, Pipe::kMte2, "dst", call).id;
    if (memory != LocalUnit::Id::kUnifiedBuffer) {
        block->Require(CoreKind::kCube, call);
    }
    RequireNoL0(*block, dst, call);
    if (copy.matrices == 0 || copy.rows == 0 || copy.columns == 0) {
        block->Warn("no_effect", Pipe::kMte2, call, "ndNum, nValue or dValue is 0: the instruction does nothing");
        return;
    }
    if (memory == LocalUnit::Id::kUnifiedBuffer) {
        return CopyColumns(dst, src, copy, call);
    }
    const int64_t rowBytes = copy.columns * src.size;
    const int64_t columns = CeilDiv(rowBytes, kBlockBytes);
    const int64_t columnStride = copy.dstColumnStride * kBlockBytes;
    const int64_t rowStride = copy.dstRowStride * kBlockBytes;
    const int64_t matrixStride = copy.dstMatrixStride * src.size;
    const int64_t extent =
        (copy.matrices - 1) * matrixStride + (columns - 1) * columnStride + (copy.rows - 1) * rowStride + kBlockBytes;
    block->checks.Use(dst, extent, Pipe::kMte2, AccessKind::kWrite, kBlockBytes, "dst", call);
    if (matrixStride % kBlockBytes != 0 && copy.matrices > 1) {
        block->Fail("cube_misaligned", Pipe::kMte2, call,
                    Text("dstNzMatrixStride is ", matrixStride, " bytes, which is not a multiple of ", kBlockBytes,
                         "; round it up"));
    }
    for (int64_t matrix = 0; matrix < copy.matrices; ++matrix) {
        const int64_t to = dst.address + matrix * matrixStride;
        for (int64_t column = 0; column < columns; ++column) {
            const bool isDense = copy.dstRowStride == 1;
            const int64_t bytes = isDense ? copy.rows * kBlockBytes : kBlockBytes;
            for (int64_t row = 0; row < (isDense ? 1 : copy.rows); ++row) {
                block->checks.Touch({Pipe::kMte2, Memory::kOnChip, AccessKind::kWrite,
                                     to + column * columnStride + row * rowStride, bytes, "dst", call});
            }
        }
        for (int64_t row = 0; row < copy.rows; ++row) {
            const uint64_t address =
                src.address +
                static_cast<uint64_t>((matrix * copy.srcMatrixStride + row * copy.srcRowStride) * src.size);
            const auto bytes = static_cast<uint64_t>(rowBytes);
            const uint8_t* from =
                block->checks.Resolve(src, address, bytes, Pipe::kMte2, AccessKind::kRead, "src", call);
            block->checks.Touch({Pipe::kMte2, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(address),
                                 rowBytes, "src", call});
            ScatterRow(*block, from, address, rowBytes, to + row * rowStride, columnStride, call);
            block->accounting.CountRow(src, address, bytes, false);
        }
    }
    block->accounting.EndDma(Pipe::kMte2, call);
}

void CopyOutNd(const GlobalView& dst, const LocalView& src, const NdCopy& copy, const Call& call)
{
    constexpr int64_t kColumns = 16;
    Entry(call)->Require(CoreKind::kVector, call);
    for (int64_t matrix = 0; matrix < copy.matrices; ++matrix) {
        for (int64_t column = 0; column < copy.columns / kColumns; ++column) {
            LocalView from = src;
            from.address += (matrix * copy.srcMatrixStride + column * copy.srcColumnStride) * src.size;
            GlobalView to = dst;
            to.address +=
                static_cast<uint64_t>((matrix * copy.dstMatrixStride + column * kColumns) * int64_t{src.size});
            const int64_t bytes = kColumns * src.size;
            CopyOut(to, from, {copy.rows, bytes, 0, copy.dstRowStride * src.size - bytes}, true, call);
        }
    }
}

void LoadFractals(const LocalView& dst, const LocalView& src, const FractalLoad& load, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    const LocalUnit::Id memory = RequireL0(*block, dst, call);
    if (load.isTransposed && load.isHalfByte && memory != LocalUnit::Id::kL0B) {
        block->Fail("position", Pipe::kMte1, call, "dst is in L0A, expected L0B (TPosition::B2) for int4b_t");
    }
    if (load.repeats == 0) {
        block->Warn("no_effect", Pipe::kMte1, call, "repeatTimes is 0: the instruction does nothing");
        return;
    }
    const int64_t pieces = FractalsOfUnit(src, load);
    const int64_t pieceBytes = pieces * kFractalBytes;
    const int64_t fractalPitch = (1 + (pieces > 1 ? load.dstFractalGap : 0)) * kFractalBytes;
    const int64_t dstPitch = (1 + load.dstGap) * kFractalBytes;
    const int64_t last = load.repeats - 1;
    const int64_t step = (load.isDescending ? -load.srcStride : load.srcStride) * pieceBytes;
    const int64_t first = src.address + load.start * pieceBytes;
    LocalView from = src;
    from.address = std::min(first, first + last * step);
    block->checks.Use(from, last * std::abs(step) + pieceBytes, Pipe::kMte1, AccessKind::kRead, kBlockBytes, "src",
                      call);
    block->checks.Use(dst, last * dstPitch + (pieces - 1) * fractalPitch + kFractalBytes, Pipe::kMte1,
                      AccessKind::kWrite, kFractalBytes, "dst", call);
    for (int64_t repeat = 0; repeat < load.repeats; ++repeat) {
        const int64_t source = first + repeat * step;
        const int64_t target = dst.address + repeat * dstPitch;
        NoteLoad(*block, source, pieceBytes, call);
        for (int64_t piece = 0; piece < pieces; ++piece) {
            block->checks.TouchOrder({Pipe::kMte1, Memory::kOnChip, AccessKind::kWrite, target + piece * fractalPitch,
                                      kFractalBytes, "dst", call});
        }
        if (!block->launch.computes) {
            continue;
        }
        block->local.Rearrange([&](uint8_t* bytes) {
            uint8_t* to = bytes + target;
            const uint8_t* unit = bytes + source;
            if (!load.isTransposed) {
                std::memcpy(to, unit, static_cast<size_t>(kFractalBytes));
            } else if (load.isHalfByte) {
                const bool isState = bytes != block->local.At(0);
                const auto turn = isState ? TransposeSquare<CopyHalfState> : TransposeSquare<CopyHalfByte>;
                turn(to, unit, 2 * kBlockBytes, fractalPitch);
            } else if (src.size == 1) {
                TransposeSquare<CopyElement<uint8_t>>(to, unit, kBlockBytes, fractalPitch);
            } else if (src.size == 2) {
                TransposeSquare<CopyElement<uint16_t>>(to, unit, kBlockBytes / 2, fractalPitch);
            } else {
                TransposeSquare<CopyElement<uint32_t>>(to, unit, kBlockBytes / 4, fractalPitch);
            }
        });
    }
    ChargeLoad(*block, dst, load.repeats * pieceBytes, call);
}

void LoadFractalsIn(const LocalView& dst, const GlobalView& src, const FractalLoad& load, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    const LocalUnit& unit = block->checks.UnitOf(dst, Pipe::kMte2, "dst", call);
    const bool isL1 = unit.id == LocalUnit::Id::kL1;
    if (!isL1 && !unit.IsL0()) {
        block->Fail("position", Pipe::kMte2, call, Text("dst is in ", unit.name, ", expected L1, L0A or L0B"));
    }
    if (load.isDescending && !isL1) {
        block->Fail("field_range", Pipe::kMte2, call, "addrMode is 1, expected 0: only loads to L1 can descend");
    }
    if (load.repeats == 0) {
        block->Warn("no_effect", Pipe::kMte2, call, "repeatTimes is 0: the instruction does nothing");
        return;
    }
    const int64_t pitch = (1 + load.dstGap) * kFractalBytes;
    const int64_t step = load.isDescending ? -load.srcStride : load.srcStride;
    block->checks.Use(dst, (load.repeats - 1) * pitch + kFractalBytes, Pipe::kMte2, AccessKind::kWrite,
                      isL1 ? kBlockBytes : kFractalBytes, "dst", call);
    for (int64_t repeat = 0; repeat < load.repeats; ++repeat) {
        const uint64_t address = src.address + static_cast<uint64_t>((load.start + repeat * step) * kFractalBytes);
        const int64_t to = dst.address + repeat * pitch;
        const uint8_t* from =
            block->checks.Resolve(src, address, kFractalBytes, Pipe::kMte2, AccessKind::kRead, "src", call);
        block->checks.Touch({Pipe::kMte2, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(address),
                             kFractalBytes, "src", call});
        if (block->launch.computes) {
            std::memcpy(block->local.At(to), from, static_cast<size_t>(kFractalBytes));
        }
        block->checks.Touch({Pipe::kMte2, Memory::kOnChip, AccessKind::kWrite, to, kFractalBytes, "dst", call});
        block->checks.CopyUndefined(address, kFractalBytes, to, call);
        block->accounting.CountRow(src, address, kFractalBytes, false);
    }
    block->accounting.EndDma(Pipe::kMte2, call);
}

void LoadSparse(const LocalView& dst, const LocalView& src, const LocalView& indices, int64_t start, int64_t repeats,
                const Call& call)
{
    LoadFractals(dst, src, {start, repeats, 1, 0, 0, false}, call);
    const Entry block(call);
    const LocalUnit& unit = block->checks.UnitOf(dst, Pipe::kMte1, "dst", call);
    if (unit.id != LocalUnit::Id::kL0B) {
        block->Fail("position", Pipe::kMte1, call, Text("dst is in ", unit.name, ", expected L0B (TPosition::B2)"));
    }
    if (repeats == 0) {
        return;
    }
    LocalView from = indices;
    from.address += start * kIndexBytes;
    block->checks.Use(from, repeats * kIndexBytes, Pipe::kMte1, AccessKind::kRead, kBlockBytes, "idx", call);
    block->checks.Touch(
        {Pipe::kMte1, Memory::kOnChip, AccessKind::kRead, from.address, repeats * kIndexBytes, "idx", call});
    std::vector<uint8_t>& memory = block->registers.sparseIndices;
    const auto fractals = static_cast<size_t>(unit.bytes / kFractalBytes);
    memory.resize(fractals * kIndexBytes);
    block->registers.hasSparseIndices.resize(fractals);
    const int64_t first = (dst.address - unit.begin) / kFractalBytes;
    std::memcpy(memory.data() + first * kIndexBytes, block->local.At(from.address),
                static_cast<size_t>(repeats * kIndexBytes));
    for (int64_t fractal = first; fractal < first + repeats; ++fractal) {
        block->registers.hasSparseIndices[static_cast<size_t>(fractal)] = true;
    }
    ChargeLoad(*block, dst, repeats * kIndexBytes, call);
}

void FillConstant(const LocalView& dst, const BlockRuns& runs, uint64_t value, const Call& call)
{
    const Entry block(call);
    if (block->position.kind == CoreKind::kVector && !kOtherCoreBuffer.Has(block->launch.options.level)) {
        return;
    }
    block->Require(CoreKind::kCube, call);
    if (runs.repeats == 0 || runs.blocks == 0) {
        block->Warn("no_effect", Pipe::kMte2, call, "repeatTimes or blockNum is 0: the instruction does nothing");
        return;
    }
    const bool isL1 = block->checks.UnitOf(dst, Pipe::kMte2, "dst", call).id == LocalUnit::Id::kL1;
    const Pipe pipe = isL1 ? Pipe::kMte2 : Pipe::kMte1;
    const int64_t unit = isL1 ? kBlockBytes : kFractalBytes;
    const int64_t bytes = runs.blocks * unit;
    const int64_t pitch = bytes + runs.gap * unit;
    block->checks.Use(dst, (runs.repeats - 1) * pitch + bytes, pipe, AccessKind::kWrite, unit, "dst", call);
    for (int64_t repeat = 0; repeat < runs.repeats; ++repeat) {
        const int64_t to = dst.address + repeat * pitch;
        block->checks.Touch({pipe, Memory::kOnChip, AccessKind::kWrite, to, bytes, "dst", call});
        for (int64_t offset = 0; offset < bytes; offset += dst.size) {
            std::memcpy(block->local.At(to + offset), &value, static_cast<size_t>(dst.size));
        }
    }
    const double rate = isL1 ? time_model::kL1ToL0bBytesPerCycle : time_model::kL1ToL0aBytesPerCycle;
    block->timeline.RunCube(pipe, static_cast<double>(runs.repeats * bytes) / rate, call);
}

/// Copies fractals of L0C to the unified buffer of a core with both units. Padding of tiles stays undefined.
void CopySums(const LocalView& dst, const LocalView& src, const SumCopy& copy, const Call& call)
{
    const Entry block(call);
    const LocalUnit& from = block->checks.UnitOf(src, Pipe::kVector, "src", call);
    const LocalUnit& to = block->checks.UnitOf(dst, Pipe::kVector, "dst", call);
    if (from.id != LocalUnit::Id::kL0C || to.id != LocalUnit::Id::kUnifiedBuffer || src.size != 4) {
        block->Fail("position", Pipe::kVector, call,
                    Text("BLOCK_MODE_MATRIX from ", from.name, " to the ", to.name,
                         "; the twin copies 4-byte sums from L0C (TPosition::CO1) to the unified buffer"));
    }
    if (copy.count == 0 || copy.fractals == 0) {
        block->Warn("no_effect", Pipe::kVector, call, "blockCount or blockLen is 0: the instruction does nothing");
        return;
    }
    const int64_t bytes = copy.fractals * kSumFractalBytes;
    const int64_t srcPitch = bytes + copy.srcGap * kSumFractalBytes;
    const int64_t dstPitch = bytes + copy.dstGap * kBlockBytes;
    block->checks.Use(src, (copy.count - 1) * srcPitch + bytes, Pipe::kVector, AccessKind::kRead, kSumFractalBytes,
                      "src", call);
    block->checks.Use(dst, (copy.count - 1) * dstPitch + bytes, Pipe::kVector, AccessKind::kWrite, kBlockBytes, "dst",
                      call);
    for (int64_t number = 0; number < copy.count; ++number) {
        const int64_t source = src.address + number * srcPitch;
        const int64_t target = dst.address + number * dstPitch;
        block->checks.TouchOrder({Pipe::kVector, Memory::kOnChip, AccessKind::kRead, source, bytes, "src", call});
        block->checks.TouchOrder({Pipe::kVector, Memory::kOnChip, AccessKind::kWrite, target, bytes, "dst", call});
        block->local.Rearrange(
            [&](uint8_t* memory) { std::memcpy(memory + target, memory + source, static_cast<size_t>(bytes)); });
    }
    block->timeline.RunVector(static_cast<double>(copy.count * bytes) / time_model::kL0cToUbBytesPerCycle, call);
}

void CopyInCube(Block& block, const LocalView& dst, const LocalView& src, const Rows& rows, const Call& call)
{
    const LocalUnit& memory = block.checks.UnitOf(dst, Pipe::kMte1, "dst", call);
    const bool isScales = memory.id == LocalUnit::Id::kFixpipe;
    if (!isScales && memory.id != LocalUnit::Id::kBias) {
        block.Fail("position", Pipe::kMte1, call,
                   Text("dst is in ", memory.name,
                        ", expected the bias table (TPosition::C2) or the fixpipe buffer "
                        "(TPosition::C2PIPE2GM); use LoadData for L0A and L0B"));
    }
    const Pipe pipe = isScales ? Pipe::kFix : Pipe::kMte1;
    const int64_t unit = isScales ? kScaleBlockBytes : kBiasBlockBytes;
    if (rows.count == 0 || rows.bytes == 0) {
        block.Warn("no_effect", pipe, call, "blockCount or blockLen is 0: the instruction does nothing");
        return;
    }
    const int64_t bytes = rows.bytes;
    const int64_t srcPitch = bytes + rows.srcGap;
    const int64_t dstPitch = bytes + rows.dstGap;
    if (bytes % unit != 0) {
        block.Fail("cube_misaligned", pipe, call,
                   Text("the ", memory.name, " takes multiples of ", unit, " bytes, got ", bytes));
    }
    block.checks.Use(src, (rows.count - 1) * srcPitch + bytes, pipe, AccessKind::kRead, kBlockBytes, "src", call);
    block.checks.Use(dst, (rows.count - 1) * dstPitch + bytes, pipe, AccessKind::kWrite, unit, "dst", call);
    for (int64_t row = 0; row < rows.count; ++row) {
        const int64_t from = src.address + row * srcPitch;
        const int64_t to = dst.address + row * dstPitch;
        block.checks.TouchOrder({pipe, Memory::kOnChip, AccessKind::kRead, from, bytes, "src", call});
        if (!isScales) {  // one pipe uses the fixpipe buffer, in order
            block.checks.TouchOrder({pipe, Memory::kOnChip, AccessKind::kWrite, to, bytes, "dst", call});
        }
        block.local.Rearrange(
            [&](uint8_t* memory) { std::memcpy(memory + to, memory + from, static_cast<size_t>(bytes)); });
    }
    ChargeLoad(block, dst, rows.count * bytes, call, pipe);
}

}  // namespace opforge::twin::kernel
