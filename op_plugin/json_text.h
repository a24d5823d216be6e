#ifndef OPFORGE_OP_PLUGIN_JSON_TEXT_H
#define OPFORGE_OP_PLUGIN_JSON_TEXT_H

#include <locale.h>
#include <stdlib.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace opforge {

/// One value of a JSON text. Numbers are stored as text, so that no integer is converted to double.
struct JsonValue {
    enum class Kind : int32_t { kNull, kBool, kNumber, kString, kArray, kObject };

    Kind kind = Kind::kNull;
    std::string text;                // the characters of a string, or a number, `true`, `false`, `null` as written
    std::vector<JsonValue> items;    // elements of an array, or member values of an object
    std::vector<std::string> names;  // member names of an object, parallel to `items`

    /// Returns the member called `name`, or nullptr.
    const JsonValue* Find(const char* name) const
    {
        for (size_t i = 0; i < names.size(); ++i) {
            if (names[i] == name) {
                return &items[i];
            }
        }
        return nullptr;
    }
};

/// Parses `text`, a decimal integer, into `value`. Returns false if it is not an integer or does not fit.
inline bool ReadInt64(const std::string& text, int64_t& value)
{
    const bool negative = !text.empty() && text[0] == '-';
    const size_t first = negative ? 1 : 0;
    if (text.size() == first) {
        return false;
    }
    constexpr uint64_t kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    const uint64_t limit = negative ? kMax + 1 : kMax;
    uint64_t magnitude = 0;
    for (size_t i = first; i < text.size(); ++i) {
        if (text[i] < '0' || text[i] > '9') {
            return false;
        }
        const uint64_t digit = static_cast<uint64_t>(text[i] - '0');
        if (magnitude > (limit - digit) / 10) {
            return false;
        }
        magnitude = magnitude * 10 + digit;
    }
    // Negating magnitude - 1 avoids signed overflow for the smallest value.
    value = negative && magnitude > 0 ? -static_cast<int64_t>(magnitude - 1) - 1 : static_cast<int64_t>(magnitude);
    return true;
}

/// Parses `text`, a finite number, into `value`, independent of the locale. Returns false if it is not a number or does
/// not fit.
inline bool ReadFloat(const std::string& text, float& value)
{
    static const locale_t numbers = newlocale(LC_ALL_MASK, "C", nullptr);
    char* end = nullptr;
    const float number = strtof_l(text.c_str(), &end, numbers);
    const bool isNumber = text.find_first_not_of("+-.0123456789eE") == std::string::npos && !text.empty();
    if (!isNumber || end != text.c_str() + text.size() || std::abs(number) > std::numeric_limits<float>::max()) {
        return false;
    }
    value = number;
    return true;
}

/// Strict reader of one JSON text (RFC 8259). No text may follow the value, and the nesting depth is limited.
class JsonReader {
public:
    explicit JsonReader(const std::string& text) : text_(text) {}

    /// Reads the whole text. On failure, `error` has the expected text and the position.
    bool Read(JsonValue& value, std::string& error)
    {
        const bool isRead = ReadValue(value, 0) && ReadEnd();
        if (!isRead) {
            error = "character " + std::to_string(position_) + ": expected " + expected_;
        }
        return isRead;
    }

private:
    static constexpr int32_t kMaxDepth = 64;

    bool Fail(const char* expected)
    {
        if (expected_.empty()) {
            expected_ = expected;
        }
        return false;
    }

    bool IsAt(char c) const { return position_ < text_.size() && text_[position_] == c; }

    bool IsDigit() const { return position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9'; }

    bool Take(char c)
    {
        if (!IsAt(c)) {
            return false;
        }
        ++position_;
        return true;
    }

    void SkipBlanks()
    {
        while (IsAt(' ') || IsAt('\t') || IsAt('\n') || IsAt('\r')) {
            ++position_;
        }
    }

    bool ReadEnd()
    {
        SkipBlanks();
        return position_ == text_.size() || Fail("the end of the text");
    }

    bool ReadValue(JsonValue& value, int32_t depth)
    {
        SkipBlanks();
        if (depth > kMaxDepth) {
            return Fail("at most 64 levels of nesting");
        }
        if (IsAt('{')) {
            return ReadObject(value, depth);
        }
        if (IsAt('[')) {
            return ReadArray(value, depth);
        }
        if (IsAt('"')) {
            value.kind = JsonValue::Kind::kString;
            return ReadString(value.text);
        }
        if (IsAt('-') || IsDigit()) {
            value.kind = JsonValue::Kind::kNumber;
            return ReadNumber(value.text);
        }
        return ReadWord(value);
    }

    bool ReadWord(JsonValue& value)
    {
        struct Word {
            const char* text;
            JsonValue::Kind kind;
        };
        for (const Word& word : {Word{"true", JsonValue::Kind::kBool}, Word{"false", JsonValue::Kind::kBool},
                                 Word{"null", JsonValue::Kind::kNull}}) {
            const std::string expected = word.text;
            if (text_.compare(position_, expected.size(), expected) == 0) {
                position_ += expected.size();
                value.kind = word.kind;
                value.text = expected;
                return true;
            }
        }
        return Fail("a value");
    }

    bool ReadObject(JsonValue& value, int32_t depth)
    {
        value.kind = JsonValue::Kind::kObject;
        ++position_;
        SkipBlanks();
        if (Take('}')) {
            return true;
        }
        do {
            SkipBlanks();
            std::string name;
            if (!IsAt('"')) {
                return Fail("a member name");
            }
            if (!ReadString(name)) {
                return false;
            }
            if (value.Find(name.c_str()) != nullptr) {
                return Fail("each member name once");
            }
            SkipBlanks();
            if (!Take(':')) {
                return Fail("':'");
            }
            value.names.push_back(name);
            value.items.emplace_back();
            if (!ReadValue(value.items.back(), depth + 1)) {
                return false;
            }
            SkipBlanks();
        } while (Take(','));
        return Take('}') || Fail("',' or '}'");
    }

    bool ReadArray(JsonValue& value, int32_t depth)
    {
        value.kind = JsonValue::Kind::kArray;
        ++position_;
        SkipBlanks();
        if (Take(']')) {
            return true;
        }
        do {
            value.items.emplace_back();
            if (!ReadValue(value.items.back(), depth + 1)) {
                return false;
            }
            SkipBlanks();
        } while (Take(','));
        return Take(']') || Fail("',' or ']'");
    }

    bool ReadDigits()
    {
        if (!IsDigit()) {
            return Fail("a digit");
        }
        while (IsDigit()) {
            ++position_;
        }
        return true;
    }

    bool ReadNumber(std::string& text)
    {
        const size_t first = position_;
        Take('-');
        // A number has no leading zero, so a zero ends its integer part.
        if (!Take('0') && !ReadDigits()) {
            return false;
        }
        if (Take('.') && !ReadDigits()) {
            return false;
        }
        if (Take('e') || Take('E')) {
            if (!Take('+')) {
                Take('-');
            }
            if (!ReadDigits()) {
                return false;
            }
        }
        text = text_.substr(first, position_ - first);
        return true;
    }

    bool ReadString(std::string& text)
    {
        if (!Take('"')) {
            return Fail("'\"'");
        }
        while (position_ < text_.size() && !IsAt('"')) {
            if (static_cast<unsigned char>(text_[position_]) < 0x20) {
                return Fail("no control character in a string");
            }
            if (!Take('\\')) {
                text += text_[position_++];
            } else if (!ReadEscape(text)) {
                return false;
            }
        }
        return Take('"') || Fail("'\"'");
    }

    bool ReadEscape(std::string& text)
    {
        static const std::string letters = "\"\\/bfnrt";
        static const std::string meanings = "\"\\/\b\f\n\r\t";
        if (Take('u')) {
            return ReadUnicode(text);
        }
        const size_t which = position_ < text_.size() ? letters.find(text_[position_]) : std::string::npos;
        if (which == std::string::npos) {
            return Fail("one of \"\\/bfnrtu after a backslash");
        }
        ++position_;
        text += meanings[which];
        return true;
    }

    bool ReadHex4(uint32_t& code)
    {
        static const std::string digits = "0123456789abcdef0123456789ABCDEF";
        code = 0;
        for (int32_t i = 0; i < 4; ++i) {
            const size_t which = position_ < text_.size() ? digits.find(text_[position_]) : std::string::npos;
            if (which == std::string::npos) {
                return Fail("four hexadecimal digits after \\u");
            }
            code = code * 16 + static_cast<uint32_t>(which % 16);
            ++position_;
        }
        return true;
    }

    bool ReadUnicode(std::string& text)
    {
        uint32_t code = 0;
        if (!ReadHex4(code)) {
            return false;
        }
        if (code >= 0xDC00 && code <= 0xDFFF) {
            return Fail("the first half of a surrogate pair");
        }
        if (code >= 0xD800 && code <= 0xDBFF) {
            uint32_t low = 0;
            if (!Take('\\') || !Take('u') || !ReadHex4(low) || low < 0xDC00 || low > 0xDFFF) {
                return Fail("the second half of a surrogate pair");
            }
            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
        }
        AppendUtf8(code, text);
        return true;
    }

    static void AppendUtf8(uint32_t code, std::string& text)
    {
        if (code < 0x80) {
            text += static_cast<char>(code);
            return;
        }
        if (code < 0x800) {
            text += static_cast<char>(0xC0 | (code >> 6));
        } else if (code < 0x10000) {
            text += static_cast<char>(0xE0 | (code >> 12));
            text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
        } else {
            text += static_cast<char>(0xF0 | (code >> 18));
            text += static_cast<char>(0x80 | ((code >> 12) & 0x3F));
            text += static_cast<char>(0x80 | ((code >> 6) & 0x3F));
        }
        text += static_cast<char>(0x80 | (code & 0x3F));
    }

    const std::string& text_;
    size_t position_ = 0;
    std::string expected_;
};

}  // namespace opforge

#endif  // OPFORGE_OP_PLUGIN_JSON_TEXT_H
