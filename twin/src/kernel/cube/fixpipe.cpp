// Fixpipe: sums of L0C to global memory or L1.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/dma/dma.h"
#include "kernel/exec/levels.h"
#include "kernel/cube/fractal.h"
#include "kernel/vector/numbers.h"
#include "kernel/timing/time_model.h"
#include "opforge_twin/kernel/cube_params.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kAlignment = 64;

/// A quantization: its type of sums, and the dtypes that it stores.
struct QuantRow {
    uint32_t mode;
    const char* name;
    Dtype from;
    Dtype to;
    Dtype orTo;  ///< another dtype, or the same
    bool hasScale;
    bool isTensor;  ///< a scale for each column
};

constexpr QuantRow kQuantRows[] = {
    {NoQuant, "NoQuant", Dtype::kFloat32, Dtype::kFloat32, Dtype::kFloat32, false, false},
    {NoQuant, "NoQuant", Dtype::kInt32, Dtype::kInt32, Dtype::kInt32, false, false},
    {F322F16, "F322F16", Dtype::kFloat32, Dtype::kFloat16, Dtype::kFloat16, false, false},
    {F322BF16, "F322BF16", Dtype::kFloat32, Dtype::kBfloat16, Dtype::kBfloat16, false, false},
    {DEQF16, "DEQF16", Dtype::kInt32, Dtype::kFloat16, Dtype::kFloat16, true, false},
    {VDEQF16, "VDEQF16", Dtype::kInt32, Dtype::kFloat16, Dtype::kFloat16, true, true},
    {REQ8, "REQ8", Dtype::kInt32, Dtype::kInt8, Dtype::kUint8, true, false},
    {VREQ8, "VREQ8", Dtype::kInt32, Dtype::kInt8, Dtype::kUint8, true, true},
    {QF322B8_PRE, "QF322B8_PRE", Dtype::kFloat32, Dtype::kInt8, Dtype::kUint8, true, false},
    {VQF322B8_PRE, "VQF322B8_PRE", Dtype::kFloat32, Dtype::kInt8, Dtype::kUint8, true, true},
};

/// The parameter of a quantization: a float with the 19 bits that the device uses, an offset of 9 bits, and the type of
/// the results of 8 bits.
struct Quantization {
    float scale = 1.0F;
    int32_t offset = 0;
    bool isSigned = true;

    static Quantization Of(uint64_t bits)
    {
        constexpr uint32_t kKept = 0xFFFFE000U;
        Quantization quantization;
        const uint32_t scale = static_cast<uint32_t>(bits) & kKept;
        std::memcpy(&quantization.scale, &scale, sizeof(scale));
        quantization.offset = static_cast<int32_t>(OffsetOfScale(bits));
        quantization.isSigned = (bits >> kSignBit & 1U) != 0;
        return quantization;
    }

    float Scaled(float sum, bool relu) const { return relu && sum < 0.0F ? 0.0F : sum * scale; }
    /// Adds the offset to a value of 9 bits, and saturates the result.
    void Store8(float value, uint8_t* to) const
    {
        constexpr float lowest = -256.0F, highest = 255.0F;
        const auto rounded =
            value != value ? 0 : static_cast<int32_t>(std::clamp(std::nearbyint(value), lowest, highest));
        const int32_t least = isSigned ? -128 : 0;
        *to = static_cast<uint8_t>(std::clamp(rounded + offset, least, least + 255));
    }
};

/// The conversion of sums that are stored from L0C.
struct Conversion {
    const QuantRow& row;
    Dtype dtype;  ///< of dst
    bool relu;
    std::vector<Quantization> columns;  ///< one, or one for each column
    bool saturates;                     ///< bit 48 of CTRL is 0

    const Quantization& Of(int64_t column) const { return columns[row.isTensor ? static_cast<size_t>(column) : 0]; }
};

void StoreAs(Dtype dtype, float value, bool saturates, uint8_t* to)
{
    switch (dtype) {
        case Dtype::kFloat16:
            return Store<half>(to, saturates ? Finite<half>(value) : value);
        case Dtype::kBfloat16:
            return Store<bfloat16_t>(to, saturates ? Finite<bfloat16_t>(value) : value);
        default:
            return Store<float>(to, value);
    }
}

/// Results of DEQF16 saturate. `first`: the matrix column of the first sum.
void Convert(const Conversion& conversion, const float* from, uint8_t* to, int64_t size, int64_t count, int64_t first)
{
    const bool isInteger = conversion.row.from == Dtype::kInt32;
    for (int64_t index = 0; index < count; ++index, to += size) {
        int32_t integer = 0;
        std::memcpy(&integer, from + index, sizeof(integer));
        if (isInteger && !conversion.row.hasScale) {
            integer = conversion.relu ? std::max(integer, 0) : integer;
            std::memcpy(to, &integer, sizeof(integer));
            continue;
        }
        const float sum = isInteger ? static_cast<float>(integer) : from[index];
        const bool isPadding = conversion.row.hasScale && conversion.row.isTensor &&
                               first + index >= static_cast<int64_t>(conversion.columns.size());
        const Quantization quantization =
            conversion.row.hasScale && !isPadding ? conversion.Of(first + index) : Quantization{};
        const float value = quantization.Scaled(sum, conversion.relu);
        if (size == 1) {
            quantization.Store8(value, to);
        } else {
            StoreAs(conversion.dtype, value, conversion.saturates || conversion.row.hasScale, to);
        }
    }
}

/// The flag replaces M_FIX: the last product of the tile must have used it.
void PassUnitFlag(Block& block, const LocalView& src, const ProductStore& store, const Call& call)
{
    const auto known = block.ordering.Tiles().find(src.address);
    const int64_t flag = known == block.ordering.Tiles().end() ? kUnitFlagOff : known->second.flag;
    if (store.unitFlag == kUnitFlagOff && flag == kUnitFlagOff) {
        return;
    }
    if (store.unitFlag != kUnitFlagLast || flag != kUnitFlagLast) {
        block.Fail("unit_flag", Pipe::kFix, call,
                   Text("unitFlag is ", store.unitFlag, ", that of the last Mmad of the tile ", flag,
                        "; both are 3, or both 0 with M_FIX between them"));
    }
    const int64_t bytes = CeilDiv(store.columns, kFractalRows) * RoundUp(store.rows, kFractalRows) * kSumRowBytes;
    if (bytes != known->second.bytes) {
        block.Fail(
            "unit_flag", Pipe::kFix, call,
            Text("the tile has ", known->second.bytes / kSumFractalBytes, " fractals since ", Where(known->second.at),
                 ", mSize and nSize cover ", bytes / kSumFractalBytes, "; with a unit flag both must agree"));
    }
    block.checks.ForgetOrder(src.address, bytes);
    block.ordering.Wait(Pipe::kFix, known->second.multiplied);
    block.timeline.Wait(Pipe::kFix, known->second.done);
}

/// The tile of L0C that an instruction reads.
class Tile {
public:
    /// With `moves`, undefined sums are read in levels that accept moves of undefined bytes.
    Tile(Block& block, const LocalView& src, const ProductStore& store, bool moves, const Call& call)
        : block_(block), src_(src), store_(store), columnBytes_(store.srcStride * kSumRowBytes)
    {
        if (Columns() > 1 && store.srcStride < store.rows) {
            block.Fail("field_range", Pipe::kFix, call,
                       Text("srcStride is ", store.srcStride, ", expected the rows of the tile in L0C, at least mSize ",
                            store.rows));
        }
        block.checks.Use(src, (Columns() - 1) * columnBytes_ + store.rows * kSumRowBytes, Pipe::kFix, AccessKind::kRead,
                         kAlignment, "src", call);
        PassUnitFlag(block, src, store, call);
        for (int64_t column = 0; column < Columns(); ++column) {
            const int64_t at = src.address + column * columnBytes_;
            const int64_t width = std::min(kFractalRows, store.columns - column * kFractalRows);
            block.checks.TouchOrder(
                {Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at, store.rows * kSumRowBytes, "src", call});
            for (int64_t row = 0; row < store.rows && (!moves || kUndefinedLanes.Has(block.launch.options.level));
                 ++row) {
                block.checks.TouchContents({Pipe::kFix, Memory::kOnChip, AccessKind::kRead, at + row * kSumRowBytes,
                                            width * static_cast<int64_t>(sizeof(float)), "src", call});
            }
        }
    }

    int64_t Columns() const { return CeilDiv(store_.columns, kFractalRows); }
    bool IsDefined(int64_t row, int64_t column) const
    {
        constexpr auto size = static_cast<int64_t>(sizeof(float));
        const int64_t at = src_.address + column / kFractalRows * columnBytes_ + row * kSumRowBytes;
        return block_.local.FirstUnwritten(at + column % kFractalRows * size, size) < 0;
    }
    const float* Row(int64_t row, int64_t column) const
    {
        const int64_t at = src_.address + column * columnBytes_ + row * kSumRowBytes;
        return reinterpret_cast<const float*>(block_.local.At(at));
    }
    /// Cycles to read the tile from L0C.
    double Cycles() const
    {
        return static_cast<double>(store_.rows * Columns() * kSumRowBytes) / time_model::kL0cOutBytesPerCycle;
    }
    /// Makes the tile available again.
    void End() const
    {
        if (store_.unitFlag != kUnitFlagOff) {
            FlaggedTile& tile = block_.ordering.Tiles()[src_.address];
            tile.flag = kUnitFlagOff;
            tile.done = block_.timeline.FlagTime(Pipe::kFix);
        }
    }

private:
    Block& block_;
    const LocalView& src_;
    const ProductStore& store_;
    int64_t columnBytes_;
};

bool IsNothing(Block& block, const ProductStore& store, const Call& call)
{
    if (store.rows == 0 || store.columns == 0) {
        block.Warn("no_effect", Pipe::kFix, call, "mSize or nSize is 0: the instruction does nothing");
    }
    return store.rows == 0 || store.columns == 0;
}

/// Reports a shift of the sums: the public documents give two meanings of its bits.
Quantization QuantizationOf(Block& block, uint64_t bits, const QuantRow& row, const Call& call)
{
    constexpr uint64_t kShifts = uint64_t{1} << 36;
    if (row.hasScale && row.from == Dtype::kInt32 && (bits & kShifts) != 0) {
        block.Fail("quant_mode", Pipe::kFix, call,
                   "bit 36 of the scale shifts the sums, which the twin does not support; set the bits 32 to 36 to 0");
    }
    return Quantization::Of(bits);
}

/// The parameters of a quantization for each column, read from L1 or the fixpipe buffer.
std::vector<Quantization> ColumnsOf(Block& block, const LocalView& view, int64_t count, const QuantRow& row,
                                    const Call& call)
{
    constexpr auto size = static_cast<int64_t>(sizeof(uint64_t));
    block.checks.Use(view, count * size, Pipe::kFix, AccessKind::kRead, kBlockBytes, "cbufWorkspace", call);
    const Access read{Pipe::kFix, Memory::kOnChip, AccessKind::kRead, view.address, count * size, "cbufWorkspace",
                      call};
    block.checks.TouchContents(read);
    if (block.local.UnitOf(view.begin).id == LocalUnit::Id::kL1) {  // one pipe uses the fixpipe buffer, in order
        block.checks.TouchOrder(read);
    }
    std::vector<Quantization> columns;
    for (int64_t column = 0; column < count; ++column) {
        uint64_t bits = 0;
        std::memcpy(&bits, block.local.At(view.address + column * size), sizeof(bits));
        columns.push_back(QuantizationOf(block, bits, row, call));
    }
    return columns;
}

/// The conversion of a store of the Matmul API, which passes the scales and not the mode.
Conversion ConversionOfMatmul(Block& block, Dtype to, const ProductStore& store, const Call& call)
{
    const Dtype from = store.isInteger ? Dtype::kInt32 : Dtype::kFloat32;
    for (const QuantRow& row : kQuantRows) {
        const bool isSame = row.from == from && (row.to == to || row.orTo == to);
        if (isSame && row.hasScale == (store.scales != nullptr) && row.isTensor == store.isScaledByColumn) {
            std::vector<Quantization> columns(1);
            if (store.scales != nullptr) {
                columns.clear();
                for (int64_t column = 0; column < (row.isTensor ? store.columns : 1); ++column) {
                    columns.push_back(QuantizationOf(block, store.scales[column], row, call));
                }
            }
            return {row, to, store.relu, std::move(columns), block.registers.isSaturating};
        }
    }
    block.Fail("quant_mode", Pipe::kFix, call, "the type of C needs another quantization; set the scales of Matmul");
}

/// The conversion of a store; ends the block if quantPre is not one from the type of src to that of dst.
Conversion ConversionOf(Block& block, Dtype to, Dtype from, const ProductStore& store, const Call& call)
{
    if (store.isInteger || store.scales != nullptr) {
        return ConversionOfMatmul(block, to, store, call);
    }
    std::string expected;
    for (const QuantRow& row : kQuantRows) {
        if (row.from != from || (row.to != to && row.orTo != to)) {
            continue;
        }
        if (row.mode != store.quantMode) {
            expected += Text(expected.empty() ? "" : " or ", "QuantMode_t::", row.name);
            continue;
        }
        const LocalView* const columns = !store.usesRegisters             ? store.quantTensor
                                         : block.registers.preQuantTensor ? &*block.registers.preQuantTensor
                                                                          : nullptr;
        if (row.isTensor != (columns != nullptr) && (row.isTensor || !store.usesRegisters)) {
            const char* const give = store.usesRegisters ? "call SetFixPipeConfig first" : "pass cbufWorkspace";
            block.Fail("quant_mode", Pipe::kFix, call,
                       Text("quantPre is ", row.name,
                            row.isTensor ? Text(", which needs a tensor with a value for each column; ", give)
                                         : ", which has one scale; omit cbufWorkspace, or use the tensor mode"));
        }
        if (row.hasScale && !row.isTensor && store.usesRegisters && !block.registers.preQuantScalar) {
            block.Fail("quant_mode", Pipe::kFix, call,
                       Text("quantPre is ", row.name, " without a scale; call SetFixpipePreQuantFlag first"));
        }
        const uint64_t scalar = store.usesRegisters ? block.registers.preQuantScalar.value_or(0) : store.quantScalar;
        return {row, to, store.relu,
                row.isTensor ? ColumnsOf(block, *columns, store.columns, row, call)
                             : std::vector<Quantization>{QuantizationOf(block, scalar, row, call)},
                block.registers.isSaturating};
    }
    block.Fail(
        "quant_mode", Pipe::kFix, call,
        Text("quantPre is ", store.quantMode, ", dst needs ", expected, "; it is not derived from the type of dst"));
}

/// The elements [first, first + width) of a row in the format of dst.
void NarrowRow(const Tile& tile, int64_t row, int64_t first, int64_t width, const Conversion& conversion, int64_t size,
               uint8_t* to)
{
    for (int64_t at = first; at < first + width;) {
        const int64_t inFractal = at % kFractalRows;
        const int64_t count = std::min(kFractalRows - inFractal, first + width - at);
        Convert(conversion, tile.Row(row, at / kFractalRows) + inFractal, to + (at - first) * size, size, count, at);
        at += count;
    }
}

/// The columns of fractals of dst; types of 1 byte have 32 columns, and a split float has 8. A last column of 1-byte
/// types may have 16.
struct Fractals {
    Fractals(const ProductStore& given, int64_t bytes)
        : store(given), size(bytes), width(StoredColumns(given.splitsChannels, bytes))
    {
    }

    int64_t Count() const { return CeilDiv(store.columns, width); }
    int64_t Width(int64_t index) const { return std::min(width, store.columns - index * width); }
    int64_t Bytes(int64_t index) const { return store.rows * Width(index) * size; }
    void Narrow(const Tile& tile, int64_t index, const Conversion& conversion, uint8_t* to) const
    {
        for (int64_t row = 0; row < store.rows; ++row) {
            NarrowRow(tile, row, index * width, Width(index), conversion, size, to + row * Width(index) * size);
        }
    }

    /// Calls `act` with the offset of each element of a column of fractals whose sum is undefined.
    template <typename Do>
    void ForUndefined(const Tile& tile, int64_t index, const Do& act) const
    {
        for (int64_t row = 0; row < store.rows; ++row) {
            for (int64_t column = 0; column < Width(index); ++column) {
                if (!tile.IsDefined(row, index * width + column)) {
                    act((row * Width(index) + column) * size);
                }
            }
        }
    }

    const ProductStore& store;
    int64_t size;
    int64_t width;
};

void RequireSplit(Block& block, const ProductStore& store, bool isPossible, const Call& call)
{
    if (store.splitsChannels && (!isPossible || store.unitFlag != kUnitFlagOff)) {
        block.Fail("field_range", Pipe::kFix, call,
                   "isChannelSplit is true, expected false: only fractals of float in global memory without unitFlag "
                   "can be split");
    }
}

}  // namespace

void StoreProduct(const GlobalView& dst, const LocalView& src, const ProductStore& store, bool asRows, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (IsNothing(*block, store, call)) {
        return;
    }
    const Conversion conversion = ConversionOf(*block, dst.dtype, src.dtype, store, call);
    if (store.usesRegisters && asRows && !block->registers.hasMatrices) {
        block->Fail("fixpipe_register", Pipe::kFix, call,
                    "nz2ndEn without SetFixpipeNz2ndFlag; call it before, with one matrix: (1, 0, 0)");
    }
    RequireAtomicDtype(*block, dst.dtype, Pipe::kFix, call);
    WatchAtomicMode(*block, dst, Pipe::kFix, call);
    RequireSplit(*block, store, !asRows && dst.dtype == Dtype::kFloat32, call);
    const Tile tile(*block, src, store, false, call);
    const Fractals fractals(store, dst.size);
    const int64_t lines = asRows ? store.rows : fractals.Count();
    const int64_t pitch = store.dstStride * (asRows ? dst.size : kBlockBytes);
    std::vector<uint8_t> line(static_cast<size_t>(asRows ? store.columns * dst.size : fractals.Bytes(0)));
    for (int64_t index = 0; index < lines; ++index) {
        if (block->launch.computes && asRows) {
            NarrowRow(tile, index, 0, store.columns, conversion, dst.size, line.data());
        } else if (block->launch.computes) {
            fractals.Narrow(tile, index, conversion, line.data());
        }
        const int64_t bytes = asRows ? store.columns * dst.size : fractals.Bytes(index);
        StoreRow(*block, dst, dst.address + static_cast<uint64_t>(index * pitch), line.data(), bytes, Pipe::kFix, call);
    }
    block->accounting.EndDma(Pipe::kFix, call, tile.Cycles());
    tile.End();
}

void KeepProduct(const LocalView& dst, const LocalView& src, const ProductStore& store, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (IsNothing(*block, store, call)) {
        return;
    }
    const Conversion conversion = ConversionOf(*block, dst.dtype, src.dtype, store, call);
    RequireSplit(*block, store, false, call);
    const Tile tile(*block, src, store, true, call);
    const Fractals fractals(store, dst.size);
    const int64_t last = fractals.Count() - 1;
    const int64_t pitch = store.dstStride * kBlockBytes;
    block->checks.Use(dst, last * pitch + fractals.Bytes(last), Pipe::kFix, AccessKind::kWrite, kBlockBytes, "dst",
                      call);
    for (int64_t index = 0; index <= last; ++index) {
        const int64_t to = dst.address + index * pitch;
        block->checks.Touch({Pipe::kFix, Memory::kOnChip, AccessKind::kWrite, to, fractals.Bytes(index), "dst", call});
        fractals.Narrow(tile, index, conversion, block->local.At(to));
        fractals.ForUndefined(tile, index, [&](int64_t offset) {
            block->local.Poison(to + offset, dst.size, {call, "stored it from undefined sums"});
        });
    }
    block->timeline.RunCube(Pipe::kFix, tile.Cycles(), call);
    tile.End();
}

void SetPreQuantScalar(uint64_t scalar, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    block->registers.preQuantScalar = scalar;
}

void SetPreQuantTensor(const LocalView& scales, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    const LocalUnit& unit = block->checks.UnitOf(scales, Pipe::kFix, "preData", call);
    if (unit.id != LocalUnit::Id::kFixpipe) {
        block->Fail("position", Pipe::kFix, call,
                    Text("preData is in ", unit.name,
                         ", expected the fixpipe buffer (TPosition::C2PIPE2GM); copy the scales with DataCopy"));
    }
    block->registers.preQuantTensor = scales;
}

void SetMatricesOfStore(int64_t count, int64_t srcStride, int64_t dstStride, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    Field("ndNum (the twin stores one matrix)", count, 1, 1, call);
    Field("srcNdStride", srcStride, 0, UINT16_MAX, call);
    Field("dstNdStride", dstStride, 0, UINT16_MAX, call);
    block->registers.hasMatrices = true;
}

}  // namespace opforge::twin::kernel
