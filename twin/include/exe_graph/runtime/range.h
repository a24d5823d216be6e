// The lower and upper end of a value range.
#ifndef EXE_GRAPH_RUNTIME_RANGE_H
#define EXE_GRAPH_RUNTIME_RANGE_H

namespace gert {
/// Stores pointers, not values. The objects must exist as long as the range is used.
template <typename T>
class Range {
public:
    Range() = default;
    Range(T* min, T* max) : min_(min), max_(max) {}
    /// A range with one value.
    explicit Range(T* same) : min_(same), max_(same) {}

    bool operator==(const Range<T>& rht) const { return IsSame(min_, rht.min_) && IsSame(max_, rht.max_); }

    const T* GetMin() const { return min_; }
    const T* GetMax() const { return max_; }
    T* GetMin() { return min_; }
    T* GetMax() { return max_; }
    void SetMin(T* min) { min_ = min; }
    void SetMax(T* max) { max_ = max; }

private:
    static bool IsSame(const T* left, const T* right)
    {
        return left == right || (left != nullptr && right != nullptr && *left == *right);
    }

    T* min_ = nullptr;
    T* max_ = nullptr;
};
}  // namespace gert

#endif  // EXE_GRAPH_RUNTIME_RANGE_H
