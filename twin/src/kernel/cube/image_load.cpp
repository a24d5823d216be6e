// Loads from L1 to L0A and L0B of parts of a matrix: one in fractals, or the windows of a convolution over an image.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/cube/cube_load.h"
#include "kernel/cube/fractal.h"
#include "kernel/exec/levels.h"

namespace opforge::twin::kernel {

namespace {

/// `rows` rows of 32 bytes to columns.
template <typename T>
void TransposeRows(uint8_t* dst, const uint8_t* src, int64_t rows)
{
    constexpr auto size = static_cast<int64_t>(sizeof(T));
    constexpr int64_t c0 = kBlockBytes / size;
    for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < std::min(c0, kFractalRows); ++column) {
            std::memcpy(dst + (column * c0 + row) * size, src + (row * c0 + column) * size, sizeof(T));
        }
    }
}

/// At most as many rows as 32 bytes have elements: the unit of a transposition. For 1-byte types, the first 16 columns.
void Transpose(uint8_t* dst, const uint8_t* src, int64_t rows, int64_t size)
{
    size == 1   ? TransposeRows<uint8_t>(dst, src, rows)
    : size == 2 ? TransposeRows<uint16_t>(dst, src, rows)
                : TransposeRows<uint32_t>(dst, src, rows);
}

/// The positions of a filter on one axis of an image.
int64_t Positions(int64_t length, int64_t points, int64_t stride, int64_t dilation)
{
    const int64_t left = length - ((points - 1) * dilation + 1);
    return left < 0 ? 0 : left / stride + 1;
}

/// The matrix of an image: a row for each position of the filter. Its columns are units: as many channels as are beside
/// each other in the image, of one point of the filter.
class Windows {
public:
    Windows(const Image& image, const WindowLoad& load, int64_t size)
        : image_(image),
          filter_(load.filter),
          unit_(std::min(load.columns, kBlockBytes / size)),
          unitBytes_(unit_ * size),
          columns_(load.columns * filter_.width * filter_.height),
          perRow_(Positions(image.width + image.padding[0] + image.padding[1], filter_.width, filter_.strideX,
                            filter_.dilationX)),
          rows_(perRow_ * Positions(image.height + image.padding[2] + image.padding[3], filter_.height, filter_.strideY,
                                    filter_.dilationY))
    {
    }

    int64_t Rows() const { return rows_; }
    int64_t Columns() const { return columns_; }
    int64_t Units() const { return columns_ / unit_; }
    int64_t UnitBytes() const { return unitBytes_; }
    /// Bytes of the channels that are beside each other.
    int64_t SliceBytes() const { return image_.height * image_.width * unitBytes_; }
    /// Whether the image in L1 is the matrix.
    bool IsImage() const
    {
        return unitBytes_ == kBlockBytes && filter_.width * filter_.height == 1 && filter_.strideX == 1 &&
               filter_.strideY == 1 &&
               std::all_of(image_.padding.begin(), image_.padding.end(), [](int64_t points) { return points == 0; });
    }
    /// The offset of a unit in the image; -1 in the padding.
    int64_t OffsetOf(int64_t row, int64_t unit) const
    {
        const int64_t points = filter_.width * filter_.height;
        const int64_t point = unit % points;
        const int64_t x =
            row % perRow_ * filter_.strideX + point % filter_.width * filter_.dilationX - image_.padding[0];
        const int64_t y =
            row / perRow_ * filter_.strideY + point / filter_.width * filter_.dilationY - image_.padding[2];
        const bool isInside = x >= 0 && x < image_.width && y >= 0 && y < image_.height;
        return isInside ? unit / points * SliceBytes() + (y * image_.width + x) * unitBytes_ : -1;
    }

private:
    const Image& image_;
    const Filter& filter_;
    int64_t unit_;
    int64_t unitBytes_;
    int64_t columns_;
    int64_t perRow_;
    int64_t rows_;
};

/// The rows and columns of 32 bytes that an instruction loads, of all its repeats.
struct Selection {
    Selection(const WindowLoad& load, const ImageRepeats& repeats, int64_t c0)
        : rowsOfPart(load.rowCount),
          blocksOfPart(CeilDiv(load.columnCount, c0)),
          rows(rowsOfPart * (repeats.alongColumns ? 1 : repeats.times)),
          blocks(blocksOfPart * (repeats.alongColumns ? repeats.times : 1)),
          firstRow(load.firstRow),
          firstBlock(load.firstColumn / c0),
          stride(repeats.stride)
    {
    }

    int64_t RowAt(int64_t number) const
    {
        return firstRow + number / rowsOfPart * stride * kFractalRows + number % rowsOfPart;
    }
    int64_t BlockAt(int64_t number) const
    {
        return firstBlock + number / blocksOfPart * stride + number % blocksOfPart;
    }

    int64_t rowsOfPart;
    int64_t blocksOfPart;
    int64_t rows;
    int64_t blocks;
    int64_t firstRow;
    int64_t firstBlock;
    int64_t stride;
};

void CheckWindow(Block& block, const WindowLoad& load, const ImageRepeats& repeats, const Windows& windows,
                 const Selection& selection, int64_t c0, const Call& call)
{
    constexpr int64_t kFewest = 4;  // channels
    const bool isSmall = load.columns >= kFewest && c0 % load.columns == 0;
    if ((load.columns % c0 != 0 && !isSmall) || load.firstColumn % c0 != 0) {
        block.Fail("window", Pipe::kMte1, call,
                   Text("channelSize is ", load.columns, ", kStartPt ", load.firstColumn, ", expected multiples of ",
                        c0, "; channelSize can also be a smaller power of 2"));
    }
    const int64_t lastRow = selection.RowAt(selection.rows - 1) + 1;
    const int64_t lastBlock = selection.BlockAt(selection.blocks - 1) + 1;
    if (lastRow > RoundUp(windows.Rows(), kFractalRows) || lastBlock * c0 > RoundUp(windows.Columns(), c0)) {
        block.Fail("window", Pipe::kMte1, call,
                   Text("rows [", load.firstRow, ", ", lastRow, ") and columns [", load.firstColumn, ", ",
                        lastBlock * c0, ") of a matrix of ", windows.Rows(),
                        " rows (l1H x l1W, or the positions of the "
                        "filter) and ",
                        windows.Columns(),
                        " columns (channelSize, for each point of the filter); reduce mExtension or kExtension"));
    }
    const int64_t end = load.firstColumn + load.columnCount;
    const bool isRepeated = repeats.times > 1;
    if ((load.columnCount % c0 != 0 && (isRepeated || end < windows.Columns())) ||
        (isRepeated && !repeats.alongColumns && load.rowCount % kFractalRows != 0)) {
        block.Fail("window", Pipe::kMte1, call,
                   Text("mExtension is ", load.rowCount, ", kExtension ", load.columnCount,
                        ", expected whole fractals of 16 rows and ", c0, " columns before the end of the matrix"));
    }
}

/// The selected part of the matrix of an image, as columns of rows of 32 bytes.
class Unrolled {
public:
    Unrolled(const Windows& windows, const Selection& selection)
        : unitBytes_(windows.UnitBytes()), rows_(selection.rows)
    {
        const int64_t perBlock = kBlockBytes / unitBytes_;
        offsets_.reserve(static_cast<size_t>(selection.blocks * rows_ * perBlock));
        for (int64_t block = 0; block < selection.blocks; ++block) {
            for (int64_t row = 0; row < rows_; ++row) {
                for (int64_t unit = 0; unit < perBlock; ++unit) {
                    const int64_t number = selection.BlockAt(block) * perBlock + unit;
                    const int64_t from = selection.RowAt(row);
                    const bool exists = from < windows.Rows() && number < windows.Units();
                    offsets_.push_back(exists ? windows.OffsetOf(from, number) : kNothing);
                }
            }
        }
    }

    bool HasPadding() const { return std::find(offsets_.begin(), offsets_.end(), kPadding) != offsets_.end(); }

    /// Checks the reads of each slice of channels.
    void Check(Block& block, const LocalView& src, int64_t sliceBytes, const Call& call) const
    {
        std::vector<std::array<int64_t, 2>> spans;
        for (const int64_t offset : offsets_) {
            if (offset < 0) {
                continue;
            }
            const auto slice = static_cast<size_t>(offset / sliceBytes);
            if (spans.size() <= slice) {
                spans.resize(slice + 1, {INT64_MAX, 0});
            }
            spans[slice] = {std::min(spans[slice][0], offset), std::max(spans[slice][1], offset + unitBytes_)};
        }
        for (const auto& [begin, end] : spans) {
            if (begin >= end) {
                continue;
            }
            LocalView from = src;
            from.address += RoundDown(begin, kBlockBytes);
            block.checks.Use(from, end - RoundDown(begin, kBlockBytes), Pipe::kMte1, AccessKind::kRead, kBlockBytes,
                             "src", call);
            NoteLoad(block, src.address + begin, end - begin, call);
        }
    }

    /// The bytes; `filling` is in places outside of the matrix.
    std::vector<uint8_t> Bytes(const uint8_t* image, const std::array<uint8_t, kBlockBytes>& padding,
                               uint8_t filling) const
    {
        std::vector<uint8_t> bytes(offsets_.size() * static_cast<size_t>(unitBytes_), filling);
        uint8_t* to = bytes.data();
        for (const int64_t offset : offsets_) {
            if (offset != kNothing) {
                std::memcpy(to, offset == kPadding ? padding.data() : image + offset, static_cast<size_t>(unitBytes_));
            }
            to += unitBytes_;
        }
        return bytes;
    }

private:
    static constexpr int64_t kPadding = -1;
    static constexpr int64_t kNothing = -2;

    int64_t unitBytes_;
    int64_t rows_;
    std::vector<int64_t> offsets_;
};

/// The fractals of a load.
struct Target {
    Target(int64_t rowCount, int64_t columnCount, int64_t elementBytes, bool toL0B, bool turns)
        : rows(rowCount), columns(columnCount), size(elementBytes), isL0B(toL0B), isTransposed(toL0B || turns)
    {
        // Rows of the matrix are rows of fractals, or, transposed, their columns.
        const int64_t c0 = kBlockBytes / size;
        majorFractals = CeilDiv(isTransposed ? columns : rows, kFractalRows);
        minorFractals = isTransposed ? RoundUp(rows, std::max(kFractalRows, c0)) / c0 : CeilDiv(columns, c0);
    }

    int64_t Bytes() const { return majorFractals * minorFractals * kFractalBytes; }

    /// Places the first `count` rows of a matrix, whose columns of 32 bytes are `columnBytes` apart.
    void Place(uint8_t* dst, const uint8_t* from, int64_t columnBytes, int64_t count) const
    {
        const int64_t c0 = kBlockBytes / size;
        const int64_t step = isTransposed ? c0 : kFractalRows;
        for (int64_t column = 0; column < columns; column += c0) {
            for (int64_t row = 0; row < count; row += step) {
                const int64_t major = isTransposed ? column : row;
                const int64_t minor = isTransposed ? row : column;
                const int64_t fractal = isL0B ? minor / c0 * majorFractals + major / kFractalRows
                                              : major / kFractalRows * minorFractals + minor / c0;
                uint8_t* to = dst + fractal * kFractalBytes + major % kFractalRows * kBlockBytes;
                const uint8_t* source = from + column / c0 * columnBytes + row * kBlockBytes;
                const int64_t part = std::min(step, count - row);
                if (isTransposed && size == 1) {  // two fractals
                    Transpose(to, source, part, size);
                    Transpose(to + (isL0B ? 1 : minorFractals) * kFractalBytes, source + kFractalRows, part, size);
                } else if (isTransposed) {
                    Transpose(to, source, part, size);
                } else {
                    std::memcpy(to, source, static_cast<size_t>(part * kBlockBytes));
                }
            }
        }
    }

    int64_t rows;
    int64_t columns;
    int64_t size;
    bool isL0B;
    bool isTransposed;
    int64_t majorFractals;
    int64_t minorFractals;
};

std::array<uint8_t, kBlockBytes> Repeated(uint64_t value, int64_t size)
{
    std::array<uint8_t, kBlockBytes> bytes{};
    for (int64_t at = 0; at < kBlockBytes; at += size) {
        std::memcpy(bytes.data() + at, &value, static_cast<size_t>(size));
    }
    return bytes;
}

/// Loads a part of a matrix that L1 contains.
void LoadMatrix(Block& block, const LocalView& dst, const LocalView& src, const Selection& selection,
                const Windows& windows, const Target& target, const Call& call)
{
    const int64_t columnBytes = windows.Rows() * kBlockBytes;
    const int64_t rows = std::max<int64_t>(0, std::min(selection.rows, windows.Rows() - selection.firstRow));
    LocalView from = src;
    from.address += selection.firstBlock * columnBytes + selection.firstRow * kBlockBytes;
    block.checks.Use(from, (selection.blocks - 1) * columnBytes + rows * kBlockBytes, Pipe::kMte1, AccessKind::kRead,
                     kBlockBytes, "src", call);
    for (int64_t column = 0; column < selection.blocks; ++column) {
        NoteLoad(block, from.address + column * columnBytes, rows * kBlockBytes, call);
    }
    block.local.Rearrange([&](uint8_t* memory) {
        if (block.launch.computes) {
            target.Place(memory + dst.address, memory + from.address, columnBytes, rows);
        }
    });
}

void LoadImage(Block& block, const LocalView& dst, const LocalView& src, const Selection& selection,
               const Windows& windows, const Target& target, const Call& call)
{
    const Unrolled unrolled(windows, selection);
    const std::optional<uint64_t>& padding = block.registers.imagePadding;
    if (unrolled.HasPadding() && !padding) {
        block.Fail("window", Pipe::kMte1, call,
                   "the padding has no value; call SetLoadDataPaddingValue, or leave isSetPadding true");
    }
    unrolled.Check(block, src, windows.SliceBytes(), call);
    block.local.Rearrange([&](uint8_t* memory) {
        if (block.launch.computes) {
            const bool isState = memory != block.local.At(0);
            const auto pad = isState ? Repeated(LocalMemory::kWritten, 1) : Repeated(padding.value_or(0), src.size);
            const std::vector<uint8_t> bytes = unrolled.Bytes(memory + src.address, pad, memory[dst.address]);
            target.Place(memory + dst.address, bytes.data(), selection.rows * kBlockBytes, selection.rows);
        }
    });
}

}  // namespace

void SetImage(int64_t height, int64_t width, const uint8_t* padding, bool isRight, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (isRight && kRightImage.Has(block->launch.options.level)) {
        block->Fail("field_range", Pipe::kMte1, call,
                    "FMATRIX_RIGHT and fMatrixCtrl are not supported, as the document states; use FMATRIX_LEFT");
    }
    block->registers.images[isRight ? 1 : 0] = Image{height, width, {padding[0], padding[1], padding[2], padding[3]}};
}

void SetImagePadding(uint64_t value, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    block->registers.imagePadding = value;
}

void SetImageRepeats(const ImageRepeats& repeats, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    block->registers.imageRepeats = repeats;
}

void LoadWindow(const LocalView& dst, const LocalView& src, const WindowLoad& load, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    const std::optional<Image>& set = block->registers.images[load.isRight ? 1 : 0];
    if (load.rows == 0 && !set) {
        block->Fail("window", Pipe::kMte1, call,
                    "the image has no height and width; call SetFmatrix, or leave isSetFMatrix true");
    }
    const Image image = load.rows != 0 ? Image{load.rows, 1} : *set;
    const ImageRepeats repeats = load.rows != 0 ? ImageRepeats{} : block->registers.imageRepeats;
    const bool isL0B = RequireL0(*block, dst, call) == LocalUnit::Id::kL0B;
    if (std::min({image.height, image.width, load.columns, load.rowCount, load.columnCount, load.filter.width,
                  load.filter.height, repeats.times}) == 0) {
        block->Warn("no_effect", Pipe::kMte1, call,
                    "l1H, l1W, channelSize, mExtension, kExtension, filterW, filterH or repeatTime is 0: the "
                    "instruction does nothing");
        return;
    }
    const int64_t c0 = kBlockBytes / src.size;
    const Windows windows(image, load, src.size);
    const Selection selection(load, repeats, c0);
    CheckWindow(*block, load, repeats, windows, selection, c0, call);
    const Target target(selection.rows, selection.blocks * c0, src.size, isL0B, load.isTransposed);
    block->checks.Use(dst, target.Bytes(), Pipe::kMte1, AccessKind::kWrite, kFractalBytes, "dst", call);
    block->checks.TouchOrder(
        {Pipe::kMte1, Memory::kOnChip, AccessKind::kWrite, dst.address, target.Bytes(), "dst", call});
    block->local.Poison(dst.address, target.Bytes(), {call, "left it undefined, outside the window"});
    const bool isMatrix = windows.IsImage() && repeats.times == 1;
    (isMatrix ? LoadMatrix : LoadImage)(*block, dst, src, selection, windows, target, call);
    ChargeLoad(*block, dst, target.Bytes(), call);
}

}  // namespace opforge::twin::kernel
