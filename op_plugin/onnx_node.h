#ifndef OPFORGE_OP_PLUGIN_ONNX_NODE_H
#define OPFORGE_OP_PLUGIN_ONNX_NODE_H

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "graph/ascend_string.h"
#include "graph/operator.h"
#include "json_text.h"

namespace opforge {

/// An ONNX node that the parser passes to a `ParseParamsByOperatorFn`.
///
/// The source operator has the strings `name`, `op_type` (the full key) and `domain`, the lists `input` and `output`
/// with "" for an omitted position, and all attributes as one JSON text in `attribute`. In this text, a scalar float is
/// a string, a scalar string is C-escaped, and a value of zero may be missing. An absent attribute is not zero.
///
/// A getter does not change `value` if the node has no such attribute. It returns false, with a message that has node,
/// key, attribute and value, if the attribute has another kind, does not fit or cannot be read. Nothing throws.
class OnnxNode {
public:
    explicit OnnxNode(const ge::Operator& source)
    {
        name_ = ReadText(source, "name");
        key_ = ReadText(source, "op_type");
        std::vector<ge::AscendString> inputs;
        if (source.GetAttr("input", inputs) == ge::GRAPH_SUCCESS) {
            for (const ge::AscendString& input : inputs) {
                hasInput_.push_back(input.GetString() != nullptr && input.GetString()[0] != '\0');
            }
        }
        allInputs_ = hasInput_.size();
        std::vector<ge::AscendString> outputs;
        if (source.GetAttr("output", outputs) == ge::GRAPH_SUCCESS) {
            allOutputs_ = outputs.size();
        }
        while (!hasInput_.empty() && !hasInput_.back()) {
            hasInput_.pop_back();
        }
        const std::string text = ReadText(source, "attribute");
        if (!text.empty()) {
            ReadAttributes(text);
        }
    }

    const std::string& Name() const { return name_; }

    /// `<domain>::<opset>::<type>`, as the plugin was registered.
    const std::string& Key() const { return key_; }

    /// Returns the number of inputs up to the last one that is not omitted.
    size_t InputCount() const { return hasInput_.size(); }

    /// Returns the number of inputs or outputs, omitted ones included.
    size_t AllInputs() const { return allInputs_; }
    size_t AllOutputs() const { return allOutputs_; }

    bool HasInput(size_t index) const { return index < hasInput_.size() && hasInput_[index]; }

    bool Has(const char* attribute) const { return Find(attribute) != nullptr; }

    bool GetInt(const char* attribute, int64_t& value, std::string& error) const
    {
        const JsonValue* field = nullptr;
        if (!Select(attribute, Kind::kInt, field, error)) {
            return false;
        }
        if (field == nullptr) {
            return AssignZero(attribute, value);
        }
        int64_t number = 0;
        if (field->kind != JsonValue::Kind::kNumber || !ReadInt64(field->text, number)) {
            return Refuse(attribute, *field, "a whole number of 64 bits", error);
        }
        value = number;
        return true;
    }

    bool GetFloat(const char* attribute, float& value, std::string& error) const
    {
        const JsonValue* field = nullptr;
        if (!Select(attribute, Kind::kFloat, field, error)) {
            return false;
        }
        if (field == nullptr) {
            return AssignZero(attribute, value);
        }
        const bool isText = field->kind == JsonValue::Kind::kNumber || field->kind == JsonValue::Kind::kString;
        float number = 0.0F;
        if (!isText || !ReadFloat(field->text, number)) {
            return Refuse(attribute, *field, "a finite float", error);
        }
        value = number;
        return true;
    }

    bool GetString(const char* attribute, std::string& value, std::string& error) const
    {
        const JsonValue* field = nullptr;
        if (!Select(attribute, Kind::kString, field, error)) {
            return false;
        }
        if (field == nullptr) {
            return AssignZero(attribute, value);
        }
        std::string text;
        if (field->kind != JsonValue::Kind::kString || !Unescape(field->text, text)) {
            return Refuse(attribute, *field, "a string", error);
        }
        value = text;
        return true;
    }

    bool GetInts(const char* attribute, std::vector<int64_t>& value, std::string& error) const
    {
        const JsonValue* field = nullptr;
        if (!Select(attribute, Kind::kInts, field, error)) {
            return false;
        }
        if (field == nullptr) {
            return AssignZero(attribute, value);
        }
        if (field->kind != JsonValue::Kind::kArray) {
            return Refuse(attribute, *field, "a list of whole numbers", error);
        }
        std::vector<int64_t> numbers(field->items.size());
        for (size_t i = 0; i < numbers.size(); ++i) {
            const JsonValue& item = field->items[i];
            if (item.kind != JsonValue::Kind::kNumber || !ReadInt64(item.text, numbers[i])) {
                return Refuse(attribute, item, "a list of whole numbers of 64 bits", error);
            }
        }
        value = numbers;
        return true;
    }

    bool GetFloats(const char* attribute, std::vector<float>& value, std::string& error) const
    {
        const JsonValue* field = nullptr;
        if (!Select(attribute, Kind::kFloats, field, error)) {
            return false;
        }
        if (field == nullptr) {
            return AssignZero(attribute, value);
        }
        if (field->kind != JsonValue::Kind::kArray) {
            return Refuse(attribute, *field, "a list of floats", error);
        }
        std::vector<float> numbers(field->items.size());
        for (size_t i = 0; i < numbers.size(); ++i) {
            const JsonValue& item = field->items[i];
            const bool isText = item.kind == JsonValue::Kind::kNumber || item.kind == JsonValue::Kind::kString;
            if (!isText || !ReadFloat(item.text, numbers[i])) {
                return Refuse(attribute, item, "a list of finite floats", error);
            }
        }
        value = numbers;
        return true;
    }

    /// Returns false if the attributes cannot be read or one of them is not in `known`. An ignored attribute could
    /// change the result.
    bool OnlyAttributes(std::initializer_list<const char*> known, std::string& error) const
    {
        if (!malformed_.empty()) {
            error = Place() + malformed_;
            return false;
        }
        for (const Attribute& attribute : attributes_) {
            if (std::find(known.begin(), known.end(), attribute.name) == known.end()) {
                std::string names;
                for (const char* name : known) {
                    names += (names.empty() ? "" : ", ") + std::string(name);
                }
                error = Place() + "attribute '" + attribute.name + "' is unknown; expected " +
                        (names.empty() ? "no attributes" : "only " + names) + "; remove it from the model";
                return false;
            }
        }
        return true;
    }

private:
    /// Values of onnx.AttributeProto.AttributeType.
    enum class Kind : int64_t { kFloat = 1, kInt = 2, kString = 3, kFloats = 6, kInts = 7 };

    struct Attribute {
        std::string name;
        JsonValue value;
    };

    static std::string ReadText(const ge::Operator& source, const char* attribute)
    {
        ge::AscendString text;
        const bool isThere = source.GetAttr(attribute, text) == ge::GRAPH_SUCCESS && text.GetString() != nullptr;
        return isThere ? std::string(text.GetString(), text.GetLength()) : std::string();
    }

    static const char* FieldOf(Kind kind)
    {
        switch (kind) {
            case Kind::kFloat:
                return "f";
            case Kind::kInt:
                return "i";
            case Kind::kString:
                return "s";
            case Kind::kFloats:
                return "floats";
            default:
                return "ints";
        }
    }

    static std::string NameOf(int64_t type)
    {
        static const char* const names[] = {"an undefined kind", "a float",       "an int",
                                            "a string",          "a tensor",      "a graph",
                                            "a list of float",   "a list of int", "a list of string",
                                            "tensors",           "graphs",        "a sparse tensor",
                                            "sparse tensors",    "type data",     "types"};
        const int64_t count = static_cast<int64_t>(sizeof(names) / sizeof(names[0]));
        return type >= 0 && type < count ? names[type] : "kind " + std::to_string(type);
    }

    void ReadAttributes(const std::string& text)
    {
        JsonValue root;
        std::string error;
        if (!JsonReader(text).Read(root, error)) {
            malformed_ = "its attributes are no JSON text, " + error + ", got " + Quote(text);
            return;
        }
        const JsonValue* list = root.Find("attribute");
        if (root.kind != JsonValue::Kind::kObject || (list != nullptr && list->kind != JsonValue::Kind::kArray)) {
            malformed_ = "its attributes are no list 'attribute' in an object, got " + Quote(text);
            return;
        }
        if (list == nullptr) {
            return;
        }
        for (const JsonValue& item : list->items) {
            const JsonValue* name = item.Find("name");
            if (name == nullptr || name->kind != JsonValue::Kind::kString || name->text.empty()) {
                malformed_ = "an attribute has no name, got " + Quote(text);
                return;
            }
            if (Find(name->text.c_str()) != nullptr) {
                malformed_ = "attribute '" + name->text + "' is there twice; keep one of them";
                return;
            }
            attributes_.push_back({name->text, item});
        }
    }

    const JsonValue* Find(const char* attribute) const
    {
        for (const Attribute& candidate : attributes_) {
            if (candidate.name == attribute) {
                return &candidate.value;
            }
        }
        return nullptr;
    }

    /// Sets `field` to the value of an attribute of the expected kind, or to nullptr if it is absent or zero.
    bool Select(const char* attribute, Kind wanted, const JsonValue*& field, std::string& error) const
    {
        if (!malformed_.empty()) {
            error = Place() + malformed_;
            return false;
        }
        const JsonValue* found = Find(attribute);
        if (found == nullptr) {
            return true;
        }
        if (found->Find("ref_attr_name") != nullptr) {
            error = Place() + "attribute '" + attribute +
                    "' refers to an attribute of a function; inline the function first";
            return false;
        }
        const JsonValue* type = found->Find("type");
        int64_t number = 0;
        if (type != nullptr && (type->kind != JsonValue::Kind::kNumber || !ReadInt64(type->text, number))) {
            return Refuse(attribute, *type, "the number of a kind", error);
        }
        if (number != static_cast<int64_t>(wanted)) {
            error = Place() + "attribute '" + attribute + "': got " + NameOf(number) + ", expected " +
                    NameOf(static_cast<int64_t>(wanted)) + "; write it as such into the model";
            return false;
        }
        field = found->Find(FieldOf(wanted));
        return true;
    }

    template <typename T>
    bool AssignZero(const char* attribute, T& value) const
    {
        if (Has(attribute)) {
            value = T();
        }
        return true;
    }

    bool Refuse(const char* attribute, const JsonValue& got, const char* expected, std::string& error) const
    {
        error = Place() + "attribute '" + attribute + "': got " + Describe(got) + ", expected " + expected +
                "; correct it in the model";
        return false;
    }

    std::string Place() const { return "node '" + name_ + "' (" + key_ + "): "; }

    static std::string Describe(const JsonValue& value)
    {
        switch (value.kind) {
            case JsonValue::Kind::kArray:
                return "a list";
            case JsonValue::Kind::kObject:
                return "an object";
            case JsonValue::Kind::kString:
                return Quote(value.text);
            default:
                return value.text;
        }
    }

    /// Limits a text in a message to one readable line.
    static std::string Quote(const std::string& text)
    {
        constexpr size_t kMaxLength = 80;
        std::string line;
        for (const char c : text.substr(0, kMaxLength)) {
            line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
        }
        return "'" + line + (text.size() > kMaxLength ? "...'" : "'");
    }

    /// Decodes C escapes: letters, octal and hexadecimal codes of bytes.
    static bool Unescape(const std::string& text, std::string& bytes)
    {
        static const std::string letters = "abfnrtv\\'\"?";
        static const std::string meanings = "\a\b\f\n\r\t\v\\'\"?";
        for (size_t i = 0; i < text.size(); ++i) {
            if (text[i] != '\\') {
                bytes += text[i];
                continue;
            }
            ++i;
            const size_t which = i < text.size() ? letters.find(text[i]) : std::string::npos;
            if (which != std::string::npos) {
                bytes += meanings[which];
            } else if (!UnescapeCode(text, i, bytes)) {
                return false;
            }
        }
        return true;
    }

    /// Reads up to three octal digits, or `x` and up to two hexadecimal digits, from `i`; leaves `i` at the last of
    /// them.
    static bool UnescapeCode(const std::string& text, size_t& i, std::string& bytes)
    {
        static const std::string digits = "0123456789abcdef0123456789ABCDEF";
        const bool isHex = i < text.size() && (text[i] == 'x' || text[i] == 'X');
        const size_t base = isHex ? 16 : 8;
        const size_t first = isHex ? i + 1 : i;
        const size_t last = std::min(text.size(), first + (isHex ? 2 : 3));
        size_t code = 0;
        size_t next = first;
        for (; next < last; ++next) {
            const size_t which = digits.find(text[next]);
            if (which == std::string::npos || which % 16 >= base) {
                break;
            }
            code = code * base + which % 16;
        }
        if (next == first || code > 0xFF) {
            return false;
        }
        bytes += static_cast<char>(code);
        i = next - 1;
        return true;
    }

    std::string name_;
    std::string key_;
    size_t allInputs_ = 0;
    size_t allOutputs_ = 0;
    std::vector<bool> hasInput_;
    std::vector<Attribute> attributes_;
    std::string malformed_;
};

}  // namespace opforge

#endif  // OPFORGE_OP_PLUGIN_ONNX_NODE_H
