#include "kernel/exec/text.h"

#include <unistd.h>

#include <charconv>
#include <cstdio>
#include <iterator>

namespace opforge::twin::kernel {

namespace {

constexpr int kDigits = 6;  // of a double

}  // namespace

TextPart::TextPart(double number)
{
    const char* end = std::to_chars(digits_, std::end(digits_), number, std::chars_format::general, kDigits).ptr;
    word_ = {digits_, static_cast<size_t>(end - digits_)};
}

void TextPart::SetSigned(int64_t number)
{
    word_ = {digits_, static_cast<size_t>(std::to_chars(digits_, std::end(digits_), number).ptr - digits_)};
}

void TextPart::SetUnsigned(uint64_t number)
{
    word_ = {digits_, static_cast<size_t>(std::to_chars(digits_, std::end(digits_), number).ptr - digits_)};
}

std::string Join(std::initializer_list<TextPart> parts)
{
    size_t bytes = 0;
    for (const TextPart& part : parts) {
        bytes += part.Word().size();
    }
    std::string text;
    text.reserve(bytes);
    for (const TextPart& part : parts) {
        text += part.Word();
    }
    return text;
}

void RefuseVariable(const char* name, const std::string& got, const std::string& expected)
{
    std::fprintf(stderr, "%s: got '%s', expected %s\n", name, got.c_str(), expected.c_str());
    _exit(2);
}

}  // namespace opforge::twin::kernel
