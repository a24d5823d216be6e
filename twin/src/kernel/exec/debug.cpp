// Texts of kernels on standard output: printf, assertions and dumps of tensors.
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

#include "kernel/exec/block.h"
#include "kernel/exec/source_lines.h"
#include "kernel/memory/buffers.h"
#include "kernel/vector/numbers.h"
#include "opforge_twin/kernel/system.h"

namespace opforge::twin::kernel {

namespace {

constexpr int64_t kMostDumped = 1 << 20;  // elements of a shape

/// The kind of argument that a conversion takes, as in KindOf; 0 if there is no such conversion.
char KindOfConversion(char conversion)
{
    const auto isIn = [&](const char* letters) { return conversion != '\0' && std::strchr(letters, conversion); };
    return isIn("diuxXoc") ? 'i' : isIn("fFeEgGaA") ? 'f' : isIn("sp") ? conversion : '\0';
}

/// The error of a format, or an empty text.
std::string FormatError(const char* format, const char* kinds)
{
    const size_t given = std::strlen(kinds);
    size_t used = 0;
    for (const char* at = std::strchr(format, '%'); at != nullptr; at = std::strchr(at + 1, '%')) {
        if (*++at == '%') {
            continue;
        }
        at += std::strspn(at, "-+ #.0123456789");
        at += std::strspn(at, "hljzt");
        const char wanted = KindOfConversion(*at);
        const std::string which =
            Text("conversion ", used + 1, " of the format is ", std::string(1, *at == 0 ? '%' : *at));
        if (wanted == '\0') {
            return which + ", expected one of d i u x X o c f F e E g G a A s p";
        }
        if (used == given) {
            return Text(which, ", but the call has ", given, " arguments after the format");
        }
        const char kind = kinds[used++];
        if (kind != wanted && !(kind == 's' && wanted == 'p')) {
            const char* const name = kind == 'i'   ? "an integer"
                                     : kind == 'f' ? "a float"
                                     : kind == 's' ? "a text"
                                     : kind == 'p' ? "a pointer"
                                                   : "no number, text or pointer";
            return Text(which, ", but the argument is ", name);
        }
    }
    return "";
}

/// Calls a function that reads memory of the kernel and holds nothing: a fault in it ends the block.
template <typename Read>
auto ReadKernel(Block& block, const Read& read)
{
    block.execution.SetInKernel(true);
    const auto result = read();
    block.execution.SetInKernel(false);
    return result;
}

/// The text, or the format itself if it does not fit the arguments, which is a finding.
__attribute__((format(printf, 4, 0))) std::string Formatted(Block& block, const Call& call, const char* kinds,
                                                            const char* format, va_list arguments)
{
    if (ReadKernel(block, [&] { return std::strlen(format); }) == 0) {
        return "";
    }
    const std::string error = FormatError(format, kinds);
    if (!error.empty()) {
        block.Report("print_format", Pipe::kScalar, call, error + "; the device prints another value");
        return format;
    }
    va_list copy;
    va_copy(copy, arguments);
    const int length = ReadKernel(block, [&] { return std::vsnprintf(nullptr, 0, format, copy); });
    va_end(copy);
    std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
    std::vsnprintf(text.data(), text.size() + 1, format, arguments);
    return text;
}

/// One call, so that lines of other blocks are not inserted.
void Write(const std::string& text)
{
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
}

std::string Unsigned(int64_t size, uint64_t bits)
{
    return std::to_string(size == 8 ? bits : bits & ((uint64_t{1} << 8 * size) - 1));
}

template <typename T>
std::string NumberOf(uint64_t bits)
{
    if constexpr (std::is_signed_v<Computed<T>>) {
        return std::to_string(ScalarOf<T>(bits));
    } else {
        return Unsigned(sizeof(T), bits);
    }
}

std::string NumberText(Dtype dtype, int32_t size, uint64_t bits)
{
    switch (dtype) {
#define OPFORGE_KERNEL_DTYPE(dtype, type, name) \
    case Dtype::dtype:                          \
        return NumberOf<type>(bits);
#include "opforge_twin/kernel_dtype_table.inc"
#undef OPFORGE_KERNEL_DTYPE
        default:
            return Unsigned(size, bits);
    }
}

const char* NameOf(Dtype dtype)
{
    constexpr const char* names[] = {
#define OPFORGE_KERNEL_DTYPE(dtype, type, name) name,
#include "opforge_twin/kernel_dtype_table.inc"
#undef OPFORGE_KERNEL_DTYPE
        "bytes"};
    return names[static_cast<size_t>(dtype)];
}

/// The elements with the brackets and commas of a shape; `-` for elements after the last one.
template <typename Read>
std::string ShapeText(const Dump& dump, const Read& read)
{
    int64_t total = 1;
    std::string shape;
    for (uint32_t dim = 0; dim < dump.dims; ++dim) {
        shape += Text(dim == 0 ? "[" : ", ", dump.shape[dim]);
        total = std::min(total * dump.shape[dim], kMostDumped);
    }
    std::string text;
    if (total != dump.count) {
        text = Text("shape is ", shape, "], dumpSize is ", dump.count,
                    total < dump.count ? ", dumpSize is greater than shapeSize.\n" : ", data is not enough.\n");
    }
    for (int64_t index = 0; index < total; ++index) {
        size_t starts = 0;  // of dimensions
        for (int64_t step = 1; starts < dump.dims && index % (step *= dump.shape[dump.dims - 1 - starts]) == 0;) {
            ++starts;
        }
        text += (index == 0 ? "" : starts == 0 ? "," : std::string(starts, ']') + ",\n") + std::string(starts, '[');
        text += index < dump.count ? read(index) : "-";
    }
    return text + (total == 0 ? "[]" : std::string(dump.dims, ']'));
}

template <typename View, typename Read>
void WriteDump(const View& view, const Dump& dump, int64_t address, const char* memory, const Read& read)
{
    const auto number = [&](int64_t index) { return NumberText(view.dtype, view.size, read(dump.first + index)); };
    std::stringstream text;
    text << "DumpTensor: desc=" << dump.label << ", addr=0x" << std::hex << address + dump.first * view.size << std::dec
         << ", data_type=" << NameOf(view.dtype) << ", position=" << memory << ", dump_size=" << dump.count << '\n';
    if (dump.dims > 0) {
        text << ShapeText(dump, number);
    } else {
        text << '[';
        for (int64_t index = 0; index < dump.count; ++index) {
            text << (index == 0 ? "" : ", ") << number(index);
        }
        text << ']';
    }
    Write(text.str() + '\n');
}

void DumpBytes(Block& block, const LocalView& view, const Dump& dump)
{
    const LocalUnit& unit = block.local.UnitOf(view.address);
    WriteDump(view, dump, view.address - unit.begin, unit.name, [&](int64_t index) {
        uint64_t bits = 0;
        std::memcpy(&bits, block.local.At(view.address + index * view.size), static_cast<size_t>(view.size));
        return bits;
    });
}

}  // namespace

int PrintFormatted(const Call& call, const char* kinds, const char* format, ...)
{
    va_list arguments;
    if (CurrentBlock() == nullptr) {
        va_start(arguments, format);
        const int length = std::vprintf(format, arguments);
        va_end(arguments);
        return length;
    }
    const Entry block(call);
    va_start(arguments, format);
    const std::string text = Formatted(*block, call, kinds, format, arguments);
    va_end(arguments);
    Write(text);
    return static_cast<int>(text.size());
}

void FailAssertion(const Location& at, const char* condition, const char* kinds, const char* format, ...)
{
    const Call call{"assert", at};
    va_list arguments;
    if (CurrentBlock() == nullptr) {
        va_start(arguments, format);
        std::fprintf(stderr, "%s: Assertion `%s' failed. ", Where(at).c_str(), condition);
        std::vfprintf(stderr, format, arguments);
        std::fputc('\n', stderr);
        va_end(arguments);
        std::abort();
    }
    const Entry block(call);
    va_start(arguments, format);
    const std::string text = Formatted(*block, call, kinds, format, arguments);
    va_end(arguments);
    block->Fail("assertion", Pipe::kScalar, call,
                Text("the condition `", condition, "` is false, expected true", text.empty() ? "" : ": ",
                     text.substr(0, text.find_last_not_of('\n') + 1),
                     "; correct the values in the condition, or the condition"));
}

void Trap(const Call& call)
{
    const Entry block(call);
    block->Fail("trap", Pipe::kScalar, call,
                "the kernel called Trap, which ends it on the device; correct the condition before the call");
}

void DumpLocal(const LocalView& view, const Dump& dump, const Call& call)
{
    const int64_t address = AddressIn(view, call);
    const Entry block(call);
    const LocalUnit& unit = block->local.UnitOf(view.address);
    if (unit.id == LocalUnit::Id::kUnifiedBuffer) {
        WriteDump(view, dump, address, "UB", [&](int64_t index) { return ReadLocal(view, index, call); });
        return;
    }
    // The scalar unit does not read these memories; a debug function of the device copies them.
    const Pipe reader = unit.id == LocalUnit::Id::kL0C ? Pipe::kFix : Pipe::kMte1;
    block->checks.Use(view, (dump.first + dump.count) * view.size, reader, AccessKind::kRead, view.size, "input", call);
    DumpBytes(*block, view, dump);
}

void DumpAddress(uint64_t address, std::initializer_list<AscendC::TPosition> positions, Dtype dtype, int32_t size,
                 const Dump& dump, const Call& call)
{
    const Entry block(call);
    std::vector<LocalView> found;
    std::vector<LocalView> complete;
    for (const AscendC::TPosition position : positions) {
        if (positions.size() > 1 && block->local.UnitAt(position) == nullptr) {
            continue;
        }
        const LocalView view = FindAt(block->local, RequireUnit(*block, position, call), address, dtype, size);
        if (view.buffer != LocalView::kNoBuffer) {
            found.push_back(view);
        }
        if (view.buffer != LocalView::kNoBuffer && view.address + dump.count * size <= view.end) {
            complete.push_back(view);
        }
    }
    if (found.empty()) {
        FailNoBuffer(*block, address, Pipe::kScalar, call);
    }
    if (complete.size() < 2) {
        DumpLocal(complete.empty() ? found.front() : complete.front(), dump, call);
        return;
    }
    // The kernel intends one of these tensors, so that the other ones are no accesses.
    for (const LocalView& view : complete) {
        DumpBytes(*block, view, dump);
    }
}

void DumpGlobal(const GlobalView& view, const Dump& dump, const Call& call)
{
    WriteDump(view, dump, static_cast<int64_t>(view.address), "GM",
              [&](int64_t index) { return ReadGlobal(view, static_cast<uint64_t>(index), call); });
}

bool WriteLocalFile(const LocalView& view, int64_t bytes, const char* path, const Call& call)
{
    std::string content;
    LocalView raw = view;
    raw.dtype = Dtype::kUint8;
    raw.size = 1;
    for (int64_t index = 0; index < bytes; ++index) {
        content.push_back(static_cast<char>(ReadLocal(raw, index, call)));
    }
    std::FILE* file = std::fopen(path, "wb");
    if (file == nullptr) {
        return false;
    }
    const bool isWritten = std::fwrite(content.data(), 1, content.size(), file) == content.size();
    return std::fclose(file) == 0 && isWritten;
}

}  // namespace opforge::twin::kernel
