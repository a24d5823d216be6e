// A string class whose layout does not depend on the ABI of the C++ library.
#ifndef GRAPH_ASCEND_STRING_H
#define GRAPH_ASCEND_STRING_H

#include <cstddef>
#include <memory>
#include <string>

#include "graph/types.h"

namespace ge {
class AscendString {
public:
    AscendString() = default;
    AscendString(const char_t* const name);
    AscendString(const char_t* const name, size_t length);

    /// Returns "" if the string was never set, as on CANN.
    const char_t* GetString() const;
    size_t GetLength() const;
    size_t Find(const AscendString& ascend_string) const;
    size_t Hash() const;

    bool operator<(const AscendString& d) const;
    bool operator>(const AscendString& d) const;
    bool operator<=(const AscendString& d) const;
    bool operator>=(const AscendString& d) const;
    bool operator==(const AscendString& d) const;
    bool operator!=(const AscendString& d) const;
    bool operator==(const char_t* const d) const;
    bool operator!=(const char_t* const d) const;

private:
    std::shared_ptr<std::string> name_;
};
}  // namespace ge

template <>
struct std::hash<ge::AscendString> {
    size_t operator()(const ge::AscendString& name) const { return name.Hash(); }
};

#endif  // GRAPH_ASCEND_STRING_H
