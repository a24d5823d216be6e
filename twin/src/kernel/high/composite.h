// Common parts of high-level functions: checks of operands and temporary memory, numbers in double, the charged time.
#ifndef OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_IMPL_H
#define OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_IMPL_H

#include <utility>
#include <vector>

#include "kernel/exec/block.h"
#include "opforge_twin/kernel/high/composite.h"

namespace opforge::twin::kernel {

using Numbers = std::vector<double>;

class Composite;

enum class TmpUnit : uint8_t { kNone, kStep, kRow };

/// One row of operations.inc.
struct HighRow {
    const char* name;
    int64_t (*run)(Composite& run);
    int32_t fast;
    int32_t slow;
    int32_t buffers;
    TmpUnit unit;
    bool isInPlace;
};

const HighRow& RowOf(HighOp op);

/// A running high-level function.
class Composite {
public:
    Composite(Block& block, const HighRequest& request, const Call& call)
        : block_(block), request_(request), row_(RowOf(request.op)), call_(call)
    {
    }

    HighOp Op() const { return request_.op; }
    int64_t Size(size_t index) const { return request_.sizes.begin()[index]; }
    double Number(size_t index) const { return request_.numbers.begin()[index]; }
    /// The scalar that follows the tensors; 0 without one.
    double LastNumber() const { return request_.numbers.size() == 0 ? 0.0 : request_.numbers.end()[-1]; }
    size_t Operands() const { return request_.operands.size(); }
    bool Has(size_t operand) const { return request_.operands.begin()[operand] != nullptr; }
    const LocalView& View(size_t operand) const { return *request_.operands.begin()[operand]; }

    /// For element-wise functions. In levels without the check undefined_lanes, later reads accept undefined elements,
    /// and Write makes the elements at the same positions undefined.
    void PassUndefined();
    /// The states of the elements that were read, which Write then ignores.
    std::vector<uint8_t> TakeUndefined() { return std::exchange(undefined_, {}); }
    /// The state of a result that a mask selects: the element at `index`, or a defined number. `masks`: states.
    void Select(int64_t index, bool isElement, const std::vector<uint8_t>& masks, size_t mask);
    /// The numbers of an operand from element `first` on.
    Numbers Read(size_t operand, const char* name, int64_t count, int64_t first = 0);
    /// `rows` rows of `pitch` elements, of which the function uses the first `columns`.
    Numbers ReadRows(size_t operand, const char* name, int64_t rows, int64_t pitch, int64_t columns);
    /// Rounds the numbers to the dtype of the operand.
    void Write(size_t operand, const char* name, const Numbers& values, int64_t first = 0);
    /// Checks the temporary memory; `rowElements` is the unit of functions with rows. Call it after all reads.
    void TakeTmp(int64_t rowElements = 0);
    /// Ends the block if dst shares bytes with src, except for the same tensor if the function works in place. `count`
    /// is the number of elements of both, or only of dst if `srcCount` is not 0.
    void RequireNoOverlap(size_t dst, size_t src, int64_t count, const char* name, int64_t srcCount = 0);
    /// Charges the instructions of the row of the table for `elements`.
    void Charge(int64_t elements);
    [[noreturn]] void Fail(const char* kind, const std::string& message)
    {
        block_.Fail(kind, Pipe::kVector, call_, message);
    }
    /// Ends the block unless a documented condition holds.
    void Expect(bool holds, const std::string& message)
    {
        if (!holds) {
            Fail("api_contract", message);
        }
    }
    /// Ends the block unless rows of `count` elements are a multiple of 32 bytes.
    void RequireBlocks(const char* name, int64_t count, int64_t size);
    /// With the check documented_values: ends the block unless `pitch` is `columns` rounded up to 32 bytes.
    void RequirePadded(int64_t pitch, int64_t columns, int64_t size);
    /// Ends the block unless there are rows at a distance of `pitch` elements that do not overlap.
    void RequireRows(int64_t rows, int64_t columns, int64_t pitch);

private:
    /// Addresses in the unified buffer.
    struct Range {
        int64_t begin = 0;
        int64_t end = 0;
    };

    void RequireApartFromTmp(const Range& range);

    Block& block_;
    const HighRequest& request_;
    const HighRow& row_;
    const Call& call_;
    std::vector<Range> read_;
    Range tmp_;
    bool passesUndefined_ = false;
    std::vector<uint8_t> undefined_;  ///< states of the elements; empty if all are defined
};

// The families of functions.
int64_t RunPointwise(Composite& run);
int64_t RunSoftmax(Composite& run);
int64_t RunNorm(Composite& run);
int64_t RunReduction(Composite& run);
int64_t RunLayout(Composite& run);
int64_t RunQuant(Composite& run);
int64_t RunChoice(Composite& run);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_HIGH_COMPOSITE_IMPL_H
