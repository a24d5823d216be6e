// The line table (DWARF 2 to 4, section .debug_line) of an ELF file of 64 bits.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_LINE_TABLE_H
#define OPFORGE_TWIN_KERNEL_EXEC_LINE_TABLE_H

#include <cstdint>
#include <string>
#include <vector>

namespace opforge::twin::kernel {

class LineTable {
public:
    /// The start of a range of code that ends at the next row.
    struct Row {
        uint64_t address = 0;
        uint32_t file = 0;  ///< in Files()
        uint32_t line = 0;  ///< 0: no code of this table
    };

    LineTable() = default;
    /// `content`: the whole file. A file without a table has no rows; a damaged table has no rows after the damage.
    explicit LineTable(const std::string& content);

    /// Null if the address has no line.
    const Row* Find(uint64_t address) const;
    const std::string& File(const Row& row) const { return files_[row.file]; }

private:
    class Reader;
    struct Header;

    void ReadUnit(Reader& reader);
    void ReadNames(Reader& reader, Header& header);
    void Run(Reader& reader, const Header& header);
    /// Reads an extended opcode; returns whether it ends the sequence.
    bool IsEnd(Reader& reader, Row& row);
    void Close(uint64_t end);

    std::vector<std::string> files_;
    std::vector<Row> rows_;
    size_t sequence_ = 0;  ///< first row of the open sequence
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_LINE_TABLE_H
