#include "kernel/exec/line_table.h"

#include <elf.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

namespace opforge::twin::kernel {

namespace {

// The opcodes of DWARF that change the address, file or line; the others are skipped by their operands.
enum Opcode : uint8_t {
    kExtended,
    kCopy,
    kAdvanceAddress,
    kAdvanceLine,
    kSetFile,
    kAddConstant = 8,
    kFixedAdvance,
};
enum ExtendedOpcode : uint8_t { kEndSequence = 1, kSetAddress = 2 };

template <typename T>
bool Read(const std::string& content, uint64_t offset, T& value)
{
    if (offset > content.size() || content.size() - offset < sizeof(T)) {
        return false;
    }
    std::memcpy(&value, content.data() + offset, sizeof(T));
    return true;
}

std::string_view SectionBytes(const std::string& content, std::string_view wanted)
{
    Elf64_Ehdr file{};
    Elf64_Shdr names{};
    if (!Read(content, 0, file) || std::memcmp(file.e_ident, ELFMAG, SELFMAG) != 0 ||
        !Read(content, file.e_shoff + uint64_t{file.e_shstrndx} * sizeof(Elf64_Shdr), names)) {
        return {};
    }
    for (uint64_t index = 0; index < file.e_shnum; ++index) {
        Elf64_Shdr section{};
        if (!Read(content, file.e_shoff + index * sizeof(Elf64_Shdr), section)) {
            break;
        }
        const uint64_t name = names.sh_offset + section.sh_name;
        const bool isInFile = section.sh_type != SHT_NOBITS && section.sh_offset <= content.size() &&
                              section.sh_size <= content.size() - section.sh_offset;
        if (isInFile && name < content.size() && std::string_view(content.c_str() + name) == wanted) {
            return {content.data() + section.sh_offset, section.sh_size};
        }
    }
    return {};
}

}  // namespace

/// Reads numbers up to an end; beyond it, all are 0.
class LineTable::Reader {
public:
    explicit Reader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

    bool IsAtEnd() const { return at_ >= end_; }
    template <typename T>
    T Get()
    {
        T value{};
        if (static_cast<size_t>(end_ - at_) < sizeof(T)) {
            at_ = end_;
        } else {
            std::memcpy(&value, at_, sizeof(T));
            at_ += sizeof(T);
        }
        return value;
    }
    uint64_t Unsigned()
    {
        uint64_t value = 0;
        for (unsigned shift = 0; !IsAtEnd(); shift += 7) {
            const auto byte = Get<uint8_t>();
            value |= shift < 64 ? uint64_t{byte & 0x7FU} << shift : 0;
            if ((byte & 0x80U) == 0) {
                break;
            }
        }
        return value;
    }
    int64_t Signed()
    {
        uint64_t value = 0;
        unsigned shift = 0;
        uint8_t byte = 0x80;
        for (; !IsAtEnd() && (byte & 0x80U) != 0; shift += 7) {
            byte = Get<uint8_t>();
            value |= shift < 64 ? uint64_t{byte & 0x7FU} << shift : 0;
        }
        if (shift < 64 && (byte & 0x40U) != 0) {
            value |= ~uint64_t{0} << shift;
        }
        return static_cast<int64_t>(value);
    }
    std::string Text()
    {
        const char* end = std::find(at_, end_, '\0');
        std::string text(at_, end);
        at_ = end == end_ ? end_ : end + 1;
        return text;
    }
    Reader Part(uint64_t bytes)
    {
        const auto length = std::min(bytes, static_cast<uint64_t>(end_ - at_));
        Reader part(std::string_view(at_, length));
        at_ += length;
        return part;
    }

private:
    const char* at_;
    const char* end_;
};

struct LineTable::Header {
    uint8_t minimumLength = 1;
    int8_t lineBase = 0;
    uint8_t lineRange = 1;
    uint8_t opcodeBase = 1;
    std::vector<uint8_t> operands;  ///< by opcode
    uint32_t firstFile = 0;         ///< files are counted from 1
};

LineTable::LineTable(const std::string& content)
{
    Reader reader(SectionBytes(content, ".debug_line"));
    while (!reader.IsAtEnd()) {
        constexpr uint32_t kLong = 0xFFFFFFFF;  // DWARF of 64 bits
        const auto bytes = reader.Get<uint32_t>();
        if (bytes == kLong) {
            break;
        }
        Reader unit = reader.Part(bytes);
        ReadUnit(unit);
    }
    // If a sequence starts at the end of another one, its row is used.
    std::stable_sort(rows_.begin(), rows_.end(), [](const Row& a, const Row& b) {
        return std::pair(a.address, a.line != 0) < std::pair(b.address, b.line != 0);
    });
}

const LineTable::Row* LineTable::Find(uint64_t address) const
{
    const auto after = std::upper_bound(rows_.begin(), rows_.end(), address,
                                        [](uint64_t value, const Row& row) { return value < row.address; });
    return after == rows_.begin() || std::prev(after)->line == 0 ? nullptr : &*std::prev(after);
}

void LineTable::ReadUnit(Reader& reader)
{
    constexpr uint16_t kOldest = 2;
    constexpr uint16_t kNewest = 4;
    const auto version = reader.Get<uint16_t>();
    if (version < kOldest || version > kNewest) {
        return;
    }
    Reader start = reader.Part(reader.Get<uint32_t>());
    Header header;
    header.minimumLength = start.Get<uint8_t>();
    if (version == kNewest) {
        start.Get<uint8_t>();  // operations per instruction
    }
    start.Get<uint8_t>();  // whether lines are statements
    header.lineBase = start.Get<int8_t>();
    header.lineRange = std::max<uint8_t>(start.Get<uint8_t>(), 1);
    header.opcodeBase = std::max<uint8_t>(start.Get<uint8_t>(), 1);
    header.operands.assign(header.opcodeBase, 0);
    for (size_t opcode = 1; opcode < header.opcodeBase; ++opcode) {
        header.operands[opcode] = start.Get<uint8_t>();
    }
    ReadNames(start, header);
    Run(reader, header);
}

void LineTable::ReadNames(Reader& reader, Header& header)
{
    std::vector<std::string> folders{""};
    for (std::string folder = reader.Text(); !folder.empty(); folder = reader.Text()) {
        folders.push_back(folder + "/");
    }
    header.firstFile = static_cast<uint32_t>(files_.size());
    for (std::string name = reader.Text(); !name.empty(); name = reader.Text()) {
        const uint64_t folder = reader.Unsigned();
        reader.Unsigned();  // time
        reader.Unsigned();  // bytes
        files_.push_back(folder < folders.size() ? folders[folder] + name : name);
    }
}

void LineTable::Run(Reader& reader, const Header& header)
{
    const Row first{0, header.firstFile, 1};
    Row row = first;
    const auto advance = [&](uint64_t steps) { row.address += steps * header.minimumLength; };
    while (!reader.IsAtEnd()) {
        const auto opcode = reader.Get<uint8_t>();
        if (opcode >= header.opcodeBase) {
            const unsigned adjusted = opcode - header.opcodeBase;
            advance(adjusted / header.lineRange);
            row.line += static_cast<uint32_t>(header.lineBase + static_cast<int>(adjusted % header.lineRange));
            rows_.push_back(row);
            continue;
        }
        switch (opcode) {
            case kExtended:
                if (IsEnd(reader, row)) {
                    row = first;
                }
                break;
            case kCopy:
                rows_.push_back(row);
                break;
            case kAdvanceAddress:
                advance(reader.Unsigned());
                break;
            case kAdvanceLine:
                row.line += static_cast<uint32_t>(reader.Signed());
                break;
            case kSetFile:
                row.file = header.firstFile + static_cast<uint32_t>(reader.Unsigned()) - 1;
                break;
            case kAddConstant:
                advance((UINT8_MAX - header.opcodeBase) / header.lineRange);
                break;
            case kFixedAdvance:
                row.address += reader.Get<uint16_t>();
                break;
            default:
                for (uint8_t operand = 0; operand < header.operands[opcode]; ++operand) {
                    reader.Unsigned();
                }
        }
    }
    rows_.resize(std::min(rows_.size(), sequence_));  // a sequence without an end
}

bool LineTable::IsEnd(Reader& reader, Row& row)
{
    Reader part = reader.Part(reader.Unsigned());
    const auto opcode = part.Get<uint8_t>();
    if (opcode == kSetAddress) {
        row.address = part.Get<uint64_t>();
    } else if (opcode == kEndSequence) {
        Close(row.address);
    }
    return opcode == kEndSequence;
}

void LineTable::Close(uint64_t end)
{
    const auto isUnknown = [this](const Row& row) { return row.file >= files_.size(); };
    const auto first = rows_.begin() + static_cast<std::ptrdiff_t>(sequence_);
    // The linker gives the addresses 0 and 1 to code that it has dropped.
    const bool isDropped = first == rows_.end() || first->address <= 1;
    if (isDropped || std::any_of(first, rows_.end(), isUnknown)) {
        rows_.resize(sequence_);
    } else {
        rows_.push_back({end, 0, 0});
    }
    sequence_ = rows_.size();
}

}  // namespace opforge::twin::kernel
