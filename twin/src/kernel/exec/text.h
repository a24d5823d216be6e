// Texts of messages and reports, joined from words and numbers.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_TEXT_H
#define OPFORGE_TWIN_KERNEL_EXEC_TEXT_H

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace opforge::twin::kernel {

/// A word or a number of a text. Its members are in text.cpp: inline streams doubled the compile time of the twin.
class TextPart {
public:
    TextPart(const char* word) : word_(word == nullptr ? "" : word) {}
    TextPart(std::string_view word) : word_(word) {}
    TextPart(const std::string& word) : word_(word) {}
    TextPart(double number);
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    TextPart(T number)
    {
        static_assert(sizeof(T) > 1 || std::is_same_v<T, bool>, "a character or a number?");
        if constexpr (std::is_signed_v<T>) {
            SetSigned(number);
        } else {
            SetUnsigned(number);
        }
    }
    TextPart(const TextPart&) = delete;
    TextPart& operator=(const TextPart&) = delete;

    std::string_view Word() const { return word_; }

private:
    void SetSigned(int64_t number);
    void SetUnsigned(uint64_t number);

    char digits_[32];
    std::string_view word_;
};

std::string Join(std::initializer_list<TextPart> parts);

template <typename... Parts>
std::string Text(const Parts&... parts)
{
    return Join({TextPart(parts)...});
}

/// Ends the process with exit code 2 and one message: an environment variable has a wrong value.
[[noreturn]] void RefuseVariable(const char* name, const std::string& got, const std::string& expected);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_TEXT_H
