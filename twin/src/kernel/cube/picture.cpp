// Loads of images from global memory to L1: a part of the image, its conversion, and its padding.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "opforge_twin/arithmetic.h"
#include "kernel/exec/block.h"
#include "kernel/vector/numbers.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::AippInputFormat;

using Point = std::array<uint8_t, 3>;

/// Rows of one plane of an image in global memory; `pitch` is in bytes.
std::vector<const uint8_t*> ReadRows(Block& block, const GlobalView& src, int64_t offset, int64_t rows, int64_t pitch,
                                     int64_t bytes, const Call& call)
{
    std::vector<const uint8_t*> found;
    for (int64_t row = 0; row < rows; ++row) {
        const uint64_t address = src.address + static_cast<uint64_t>(offset + row * pitch);
        const auto length = static_cast<uint64_t>(bytes);
        found.push_back(block.checks.Resolve(src, address, length, Pipe::kMte2, AccessKind::kRead, "src", call));
        block.checks.Touch(
            {Pipe::kMte2, Memory::kGlobal, AccessKind::kRead, static_cast<int64_t>(address), bytes, "src", call});
        block.accounting.CountRow(src, address, length, false);
    }
    block.accounting.EndDma(Pipe::kMte2, call);
    return found;
}

Point Converted(const Point& point, const PictureSettings& settings)
{
    constexpr int32_t kMost = 255;
    Point converted{};
    for (size_t row = 0; row < converted.size(); ++row) {
        int32_t sum = 0;
        for (size_t column = 0; column < point.size(); ++column) {
            sum += settings.matrix[row][column] * (point[column] - settings.biasIn[column]);
        }
        converted[row] = static_cast<uint8_t>(std::clamp((sum >> 8) + settings.biasOut[row], 0, kMost));
    }
    return converted;
}

/// The channels of the points of a part of an image, row by row.
std::vector<Point> PointsOf(Block& block, const Picture& picture, const PicturePart& part, const Call& call)
{
    const PictureSettings& settings = picture.settings;
    const bool hasColors = settings.format == AippInputFormat::YUV420SP_U8;
    const int64_t bytes = settings.format == AippInputFormat::RGB888_U8     ? 3
                          : settings.format == AippInputFormat::XRGB8888_U8 ? 4
                                                                            : 1;
    const auto rows = ReadRows(block, picture.src0, (part.top * part.srcWidth + part.left) * bytes, part.height,
                               part.srcWidth * bytes, part.width * bytes, call);
    std::vector<const uint8_t*> colors;
    if (hasColors) {  // U and V of two rows and two columns
        colors = ReadRows(block, picture.src1, part.top / 2 * part.srcWidth + part.left,
                          CeilDiv<int64_t>(part.height, 2), part.srcWidth, RoundUp<int64_t>(part.width, 2), call);
    }
    std::vector<Point> points;
    for (int64_t y = 0; y < part.height && block.launch.computes; ++y) {
        for (int64_t x = 0; x < part.width; ++x) {
            const uint8_t* from = rows[static_cast<size_t>(y)] + x * bytes;
            if (bytes == 1) {
                const uint8_t* pair = hasColors ? colors[static_cast<size_t>(y / 2)] + x / 2 * 2 : from;
                points.push_back(
                    {from[0], pair[settings.swapsUV ? 1 : 0], pair[settings.swapsUV || !hasColors ? 0 : 1]});
                continue;
            }
            from += settings.swapsAX ? 1 : 0;
            points.push_back({from[settings.swapsRB ? 2 : 0], from[1], from[settings.swapsRB ? 0 : 2]});
        }
    }
    if (settings.hasColors) {
        std::transform(points.begin(), points.end(), points.begin(),
                       [&](const Point& point) { return Converted(point, settings); });
    }
    return points;
}

int64_t ChannelsOf(AippInputFormat format)
{
    return format == AippInputFormat::YUV400_U8 ? 1 : 3;
}

/// A point of dst: its channels, then padding.
void StorePoint(uint8_t* to, const Point& point, const PictureSettings& settings, int64_t size)
{
    const int64_t given = ChannelsOf(settings.format);
    for (int64_t channel = 0; channel < settings.channels; ++channel, to += size) {
        const auto at = static_cast<size_t>(channel);
        if (channel >= given) {
            std::memcpy(to, &settings.channelPadding, static_cast<size_t>(size));
        } else {
            const PictureSettings::Channel& of = settings.of[at];
            const int32_t without = point[at] - of.mean;
            if (settings.dtype == Dtype::kInt8) {
                Store<int8_t>(to, static_cast<int8_t>(std::clamp(without, -128, 127)));
            } else {  // each step rounds
                Store<half>(to, static_cast<float>(half(static_cast<float>(without) - of.least)) * of.factor);
            }
        }
    }
}

/// The point of the image that a point of dst repeats; -1: constants.
int64_t SourceOf(int64_t at, int64_t length, int64_t mode)
{
    constexpr int64_t kNearest = 1;
    constexpr int64_t kCopy = 2;
    if (at >= 0 && at < length) {
        return at;
    }
    if (mode == 0) {
        return -1;
    }
    if (mode == kNearest) {
        return at < 0 ? 0 : length - 1;
    }
    if (mode == kCopy) {
        return at < 0 ? at + length : at - length;
    }
    return at < 0 ? -1 - at : 2 * length - 1 - at;
}

void CheckPart(Block& block, const Picture& picture, const PicturePart& part, const Call& call)
{
    const PictureSettings& settings = picture.settings;
    const bool isPlanar = settings.format == AippInputFormat::YUV420SP_U8;
    const auto fail = [&](const std::string& text) { block.Fail("window", Pipe::kMte2, call, text); };
    if (part.left % 2 != 0 || (isPlanar && (part.top % 2 != 0 || part.srcWidth % 2 != 0))) {
        fail(Text("horizStartPos is ", part.left, ", vertStartPos ", part.top, ", srcHorizSize ", part.srcWidth,
                  ", expected an even horizStartPos, and for YUV420SP_U8 also the others"));
    }
    if (part.left + part.width > part.srcWidth) {
        fail(Text("points [", part.left, ", ", part.left + part.width, ") of rows of ", part.srcWidth,
                  " points (srcHorizSize); reduce horizSize"));
    }
    const bool repeats = settings.paddingMode > 1;
    if (settings.paddingMode == 0 && part.topPadding + part.bottomPadding != 0) {
        fail(
            "topPadSize or botPadSize with paddingMode 0, which pads at the left and at the right; use mode 1, 2 or 3");
    }
    if (repeats && (std::max(part.leftPadding, part.rightPadding) > part.width ||
                    std::max(part.topPadding, part.bottomPadding) > part.height)) {
        fail("the padding repeats the image, and is larger than it; reduce it to at most horizSize and vertSize");
    }
}

}  // namespace

void SetPicture(const GlobalView& src0, const GlobalView& src1, const PictureSettings& settings, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    const uint64_t alignment = settings.format == AippInputFormat::YUV420SP_U8   ? 2
                               : settings.format == AippInputFormat::XRGB8888_U8 ? 4
                                                                                 : 1;
    if (src0.address % alignment != 0 || src1.address % alignment != 0) {
        block->Fail("cube_misaligned", Pipe::kMte2, call,
                    Text("the source is not at a multiple of ", alignment, " bytes; align it"));
    }
    block->registers.picture = Picture{src0, src1, settings};
}

void LoadPicture(const LocalView& dst, const PicturePart& given, const Call& call)
{
    const Entry block(call);
    block->Require(CoreKind::kCube, call);
    if (!block->registers.picture) {
        block->Fail("window", Pipe::kMte2, call, "the image has no source; call SetAippFunctions before");
    }
    const Picture& picture = *block->registers.picture;
    const PictureSettings& settings = picture.settings;
    if (settings.dtype != dst.dtype) {
        block->Fail("window", Pipe::kMte2, call,
                    "dst has another type than AippParams of SetAippFunctions; use the same");
    }
    if (block->checks.UnitOf(dst, Pipe::kMte2, "dst", call).id != LocalUnit::Id::kL1) {
        block->Fail("position", Pipe::kMte2, call, "dst is not in L1; use TPosition::A1 or TPosition::B1");
    }
    PicturePart part = given;
    part.height = settings.isOneLine ? 1 : part.height;
    CheckPart(*block, picture, part, call);
    const int64_t width = part.leftPadding + part.width + part.rightPadding;
    const int64_t height = part.topPadding + part.height + part.bottomPadding;
    const int64_t pointBytes = settings.channels * dst.size;
    const int64_t bytes = width * height * pointBytes;
    block->checks.Use(dst, bytes, Pipe::kMte2, AccessKind::kWrite, kBlockBytes, "dst", call);
    const std::vector<Point> points = PointsOf(*block, picture, part, call);
    block->checks.Touch({Pipe::kMte2, Memory::kOnChip, AccessKind::kWrite, dst.address, bytes, "dst", call});
    uint8_t* to = block->local.At(dst.address);
    for (int64_t y = 0; y < height && block->launch.computes; ++y) {
        const int64_t row = SourceOf(y - part.topPadding, part.height, settings.paddingMode);
        for (int64_t x = 0; x < width; ++x, to += pointBytes) {
            const int64_t column = SourceOf(x - part.leftPadding, part.width, settings.paddingMode);
            if (column >= 0) {
                StorePoint(to, points[static_cast<size_t>(row * part.width + column)], settings, dst.size);
                continue;
            }
            for (int64_t channel = 0; channel < settings.channels; ++channel) {
                const uint64_t value =
                    channel < ChannelsOf(settings.format) ? settings.of[channel].padding : settings.channelPadding;
                std::memcpy(to + channel * dst.size, &value, static_cast<size_t>(dst.size));
            }
        }
    }
}

}  // namespace opforge::twin::kernel
