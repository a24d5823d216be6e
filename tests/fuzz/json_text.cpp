// Feeds any bytes to the reader of attributes. An accepted text is written again, and must be read as the same value.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "json_text.h"

namespace {

std::string Quoted(const std::string& text)
{
    static const char* const digits = "0123456789abcdef";
    std::string quoted = "\"";
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < 0x20) {
            quoted += std::string("\\u00") + digits[c / 16] + digits[c % 16];
        } else {
            quoted += (c == '"' || c == '\\') ? std::string("\\") + c : std::string(1, c);
        }
    }
    return quoted + "\"";
}

std::string Written(const opforge::JsonValue& value)
{
    using Kind = opforge::JsonValue::Kind;
    if (value.kind == Kind::kString) {
        return Quoted(value.text);
    }
    if (value.kind != Kind::kArray && value.kind != Kind::kObject) {
        return value.text;
    }
    const bool isObject = value.kind == Kind::kObject;
    std::string text(1, isObject ? '{' : '[');
    for (size_t i = 0; i < value.items.size(); ++i) {
        text += (i > 0 ? "," : "") + (isObject ? Quoted(value.names[i]) + ":" : "") + Written(value.items[i]);
    }
    return text + (isObject ? '}' : ']');
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size)
{
    const std::string text(reinterpret_cast<const char*>(data), size);
    int64_t whole = 0;
    if (opforge::ReadInt64(text, whole) && std::to_string(whole) != text && text.find_first_of("0-") != 0) {
        std::abort();
    }
    float number = 0;
    static_cast<void>(opforge::ReadFloat(text, number));
    opforge::JsonValue value;
    std::string error;
    if (!opforge::JsonReader(text).Read(value, error)) {
        return error.empty() ? std::abort(), 0 : 0;
    }
    const std::string written = Written(value);
    opforge::JsonValue again;
    if (!opforge::JsonReader(written).Read(again, error) || Written(again) != written) {
        std::abort();
    }
    return 0;
}
