// The interface between the kernel headers and the twin runtime library. Instructions are thin templates: they check
// dtypes at compile time and pass untyped operands. A kernel therefore compiles quickly, and each check exists once.
#ifndef OPFORGE_TWIN_KERNEL_RUNTIME_H
#define OPFORGE_TWIN_KERNEL_RUNTIME_H

#include "opforge_twin/kernel/enums.h"
#include "opforge_twin/kernel/half.h"

namespace opforge::twin::kernel {

enum class Dtype : uint8_t {
#define OPFORGE_KERNEL_DTYPE(dtype, type, name) dtype,
#include "opforge_twin/kernel_dtype_table.inc"
#undef OPFORGE_KERNEL_DTYPE
    kOther,  ///< any type of 1, 2, 4 or 8 bytes that is only copied
};

/// Whether tensors of T have elements of an allowed type.
template <typename T, typename... Allowed>
inline constexpr bool kIsAnyOf = (std::is_same_v<PrimT<T>, Allowed> || ...);

template <typename T>
constexpr Dtype DtypeOf()
{
#define OPFORGE_KERNEL_DTYPE(dtype, type, name) \
    if (std::is_same_v<PrimT<T>, type>) {       \
        return Dtype::dtype;                    \
    }
#include "opforge_twin/kernel_dtype_table.inc"
#undef OPFORGE_KERNEL_DTYPE
    return Dtype::kOther;
}

/// A view of on-chip memory: byte addresses in the memory of the unit, and the source buffer.
struct LocalView {
    static constexpr uint32_t kNoBuffer = 0xFFFFFFFFU;

    uint32_t buffer = kNoBuffer;
    uint32_t generation = 0;  ///< generation of the buffer at creation of the view; detects a freed tensor
    int64_t address = 0;
    int64_t begin = 0;  ///< byte range of the original tensor; slices keep it
    int64_t end = 0;
    Dtype dtype = Dtype::kOther;
    int32_t size = 1;  ///< bytes per element
};

/// A view of global memory. The address is in the address space of the launch; it identifies argument and offset.
struct GlobalView {
    uint64_t address = 0;
    uint64_t begin = 0;  ///< range declared in SetGlobalBuffer
    uint64_t end = 0;    ///< 0: not declared
    Dtype dtype = Dtype::kOther;
    int32_t size = 1;
    bool isReadCached = true;  ///< whether L2 keeps the bytes that are read or written, by SetL2CacheHint
    bool isWriteCached = true;
    bool bypassesScalarCache = false;  ///< of ReadGmByPassDCache and WriteGmByPassDCache
};

/// The running instruction and its source location in the kernel.
struct Call {
    const char* name;
    Location at;
};

/// The active elements of a vector instruction.
struct Lanes {
    enum class Form : uint8_t { kCount, kLeading, kBits, kRegister };

    Form form = Form::kCount;
    uint64_t low = 0;  ///< count, number of leading elements, or bits of elements 0..63
    uint64_t high = 0;
    int64_t repeats = 1;

    static Lanes Count(int64_t count) { return {Form::kCount, static_cast<uint64_t>(count), 0, 1}; }
    template <bool isSetMask>
    static Lanes Leading(uint64_t mask, int64_t repeats)
    {
        return {isSetMask ? Form::kLeading : Form::kRegister, mask, 0, repeats};
    }
    template <bool isSetMask>
    static Lanes Bits(const uint64_t* mask, int64_t repeats)
    {
        return isSetMask ? Lanes{Form::kBits, mask[0], mask[1], repeats} : Lanes{Form::kRegister, 0, 0, repeats};
    }
    template <bool isSetMask, typename M>
    static Lanes Of(M mask, int64_t repeats)
    {
        if constexpr (std::is_pointer_v<M>) {
            return Bits<isSetMask>(mask, repeats);
        } else {
            return Leading<isSetMask>(static_cast<uint64_t>(mask), repeats);
        }
    }
};

/// Strides of an operand in 32-byte blocks, as passed by the kernel (field width not checked yet).
struct Stride {
    int64_t block = 1;
    int64_t repeat = 8;
    int64_t blockLimit = 255;
    int64_t repeatLimit = 255;
};

/// A scalar operand: the bits of its type, zero-extended.
template <typename T>
uint64_t ScalarBits(const T& value)
{
    static_assert(sizeof(T) <= sizeof(uint64_t));
    uint64_t bits = 0;
    __builtin_memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T>
T FromBits(uint64_t bits)
{
    T value;
    __builtin_memcpy(static_cast<void*>(&value), &bits, sizeof(T));
    return value;
}

enum class BinaryOp : uint8_t {
    kAdd,
    kSub,
    kMul,
    kDiv,
    kMax,
    kMin,
    kAnd,
    kOr,
    kMulAddDst,
    kAddRelu,
    kSubRelu,
    kMulDstAdd,
    kMulDstAddRelu
};
enum class UnaryOp : uint8_t { kAbs, kExp, kLn, kSqrt, kRsqrt, kReciprocal, kRelu, kNot, kCopy };
enum class ScalarOp : uint8_t {
    kAdds,
    kMuls,
    kMaxs,
    kMins,
    kAxpy,
    kLeakyRelu,
    kShiftLeft,
    kShiftRight,
    kShiftRightRounded
};
enum class ReduceOp : uint8_t { kSum, kMax, kMin };

// --- vector unit ---
void Binary(BinaryOp op, const LocalView& dst, const LocalView& src0, const LocalView& src1, const Lanes& lanes,
            const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call);
void Unary(UnaryOp op, const LocalView& dst, const LocalView& src, const Lanes& lanes, const Stride& dstStride,
           const Stride& srcStride, const Call& call);
void WithScalar(ScalarOp op, const LocalView& dst, const LocalView& src, uint64_t scalar, const Lanes& lanes,
                const Stride& dstStride, const Stride& srcStride, const Call& call);
void Fill(const LocalView& dst, uint64_t scalar, const Lanes& lanes, const Stride& dstStride, const Call& call);
void Progression(const LocalView& dst, uint64_t first, uint64_t step, const Lanes& lanes, const Stride& dstStride,
                 const Call& call);
void Convert(const LocalView& dst, const LocalView& src, AscendC::RoundMode mode, uint32_t allowedModes,
             const Lanes& lanes, const Stride& dstStride, const Stride& srcStride, const Call& call);
void BroadcastBlocks(const LocalView& dst, const LocalView& src, int64_t repeats, const Stride& dstStride,
                     const Call& call);

/// Writes dst[0] (and dst[1] = index with `withIndex`) for all elements. `tmp` is scratch memory of the device.
void Reduce(ReduceOp op, const LocalView& dst, const LocalView& src, const LocalView& tmp, const Lanes& lanes,
            int64_t srcRepeatStride, bool withIndex, const Call& call);
void ReduceRepeats(ReduceOp op, const LocalView& dst, const LocalView& src, const Lanes& lanes, int64_t dstRepeatStride,
                   int64_t srcBlockStride, int64_t srcRepeatStride, AscendC::ReduceOrder order, const Call& call);
/// Reduces groups of `group` adjacent elements in each repeat.
void ReduceGroups(ReduceOp op, int64_t group, const LocalView& dst, const LocalView& src, const Lanes& lanes,
                  int64_t dstRepeatStride, int64_t srcBlockStride, int64_t srcRepeatStride, const Call& call);

/// The sum of the last Reduce of a count.
uint64_t LastSum(Dtype dtype, const Call& call);
/// The extreme of the last Reduce or ReduceRepeats, and its index, as bits of the dtype.
void LastExtreme(Dtype dtype, uint64_t* value, uint64_t* index, const Call& call);

/// Blocks of 32 bytes at 16 addresses; see TransDataTo5HD.
struct BlockTransposition {
    LocalView dst[16];
    LocalView src[16];
    bool dstHigh;
    bool srcHigh;
    int64_t repeats;
    int64_t dstRepStride;
    int64_t srcRepStride;
};
void TransposeBlocks(const BlockTransposition& blocks, const Call& call);
/// n matrices of rows x columns; `tmp` is scratch memory of the device.
void TransposeMatrices(const LocalView& dst, const LocalView& src, const LocalView& tmp, int64_t scratch, int64_t n,
                       int64_t rows, int64_t columns, const Call& call);
/// The view of an address in UB, as GetPhyAddr returns it.
LocalView ViewOf(uint64_t address, Dtype dtype, int32_t size, const Call& call);
/// The same for the C API, whose instructions the compiler does not order.
LocalView ViewOfPointer(uint64_t address, Dtype dtype, int32_t size, const Call& call);
/// The address in its memory of an array of a declaration, which keeps it until the kernel ends.
int64_t ArrayAddress(AscendC::TPosition position, int64_t bytes, const Call& call);

void CompareTensors(const LocalView& dst, const LocalView& src0, const LocalView& src1, AscendC::CMPMODE mode,
                    const Lanes& lanes, const Stride& src0Stride, const Stride& src1Stride, const Call& call);
void CompareWithScalar(const LocalView& dst, const LocalView& src, uint64_t scalar, AscendC::CMPMODE mode,
                       const Lanes& lanes, const Stride& srcStride, const Call& call);
/// Compares one repeat into the CMPMASK register; `Choose` without a mask uses this register. `src1` is null in the
/// scalar form.
void CompareToRegister(const LocalView& src0, const LocalView& src1, AscendC::CMPMODE mode, const Lanes& lanes,
                       const Stride& src0Stride, const Stride& src1Stride, const Call& call);
void ChooseByRegister(const LocalView& dst, const LocalView& src0, const LocalView& src1, int64_t repeats,
                      const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call);
/// The same with the bits of `mask`: elements of `src0`, or the scalar in the register.
void ChooseOrRegister(const LocalView& dst, const LocalView& mask, const LocalView& src0, int64_t repeats,
                      const Stride& dstStride, const Stride& src0Stride, const Call& call);
/// The same with the bits at the address in the register.
void ChooseByAddress(const LocalView& dst, const LocalView& src0, const LocalView& src1, int64_t repeats,
                     const Stride& dstStride, const Stride& src0Stride, const Stride& src1Stride, const Call& call);
/// The CMPMASK register, 16 bytes.
void StoreCompareMask(const LocalView& dst, const Call& call);
void LoadCompareMask(const LocalView& src, const Call& call);
void Choose(const LocalView& dst, const LocalView& mask, const LocalView& src0, const LocalView* src1, uint64_t scalar,
            AscendC::SELMODE mode, const Lanes& lanes, const Stride& dstStride, const Stride& src0Stride,
            const Stride& src1Stride, const Call& call);

void GatherElements(const LocalView& dst, const LocalView& src, const LocalView& byteOffsets, int64_t base,
                    const Lanes& lanes, int64_t dstRepeatStride, const Call& call);
void GatherBlocks(const LocalView& dst, const LocalView& src, const LocalView& byteOffsets, int64_t repeats,
                  const Stride& dstStride, const Call& call);
struct Compaction {
    const LocalView* bits = nullptr;  ///< bit mask in UB; null: use `pattern`
    int64_t pattern = 7;
    bool counted = false;  ///< reduceMode: `mask` elements per repeat
    int64_t mask = 0;
    int64_t blockStride = 1;
    int64_t repeats = 0;
    int64_t repeatStride = 8;
    int64_t maskRepeatStride = 8;
};
uint64_t Compact(const LocalView& dst, const LocalView& src, const Compaction& how, const Call& call);
/// Returns the result of the last Compact.
int64_t CompactedCount(const Call& call);

/// Sorted entries of 8 bytes: value and index.
struct ListMerge {
    const LocalView* lists[4];
    int64_t lengths[4];     ///< in entries
    bool suspends = false;  ///< stops when one list is exhausted
    int64_t validBits = 0;
    int64_t repeats = 1;
};
/// `isTensor`: the operands are aligned to 32 bytes, as in Sort; Sort32 demands the alignment of its repeats.
void SortRepeats(const LocalView& dst, const LocalView& values, const LocalView& indices, int64_t repeats,
                 bool isTensor, const Call& call);
void MergeLists(const LocalView& dst, const ListMerge& merge, const Call& call);
void MergedCounts(uint16_t* counts, const Call& call);
/// Merges all repeats sorted by Sort32 in `dst` into one list; uses `scratch`.
void MergeRepeats(const LocalView& dst, const LocalView& scratch, int64_t repeats, const Call& call);
void SplitEntries(const LocalView& values, const LocalView& indices, const LocalView& sorted, int64_t repeats,
                  const Call& call);

void SetMaskRegister(uint64_t high, uint64_t low, const Call& call);
void SetLeadingMask(int64_t count, int64_t laneCount, bool counter, const Call& call);
void SetCounterMode(bool counter, const Call& call);
void ResetMaskRegister(const Call& call);

// --- data movement ---
/// Rows of a copy. Lengths and gaps are in bytes; a gap is from the end of one row to the start of the next.
struct Rows {
    int64_t count = 1;
    int64_t bytes = 0;
    int64_t srcGap = 0;
    int64_t dstGap = 0;
};
struct Padding {
    bool enabled = false;
    int64_t left = 0;  ///< in elements
    int64_t right = 0;
    uint64_t value = 0;
};
/// The value of padding of copies whose isPad is false.
void SetPadding(uint64_t value, const Call& call);
void CopyIn(const LocalView& dst, const GlobalView& src, const Rows& rows, const Padding* padding, const Call& call);
void CopyOut(const GlobalView& dst, const LocalView& src, const Rows& rows, bool padded, const Call& call);
void CopyLocal(const LocalView& dst, const LocalView& src, const Rows& rows, const Call& call);
/// Checks `value` against the range of the device field; returns it.
int64_t Field(const char* name, int64_t value, int64_t low, int64_t high, const Call& call);
/// Ends the block unless a field is a multiple of `unit`; `noun`: what both count, as "bytes".
void RequireMultiple(const char* name, int64_t value, int64_t unit, const char* noun, const char* fix,
                     const Call& call);
void FillGlobal(const GlobalView& dst, int64_t count, uint64_t value, const Call& call);
enum class AtomicOp : uint8_t { kNone, kAdd, kMax, kMin };
void SetAtomic(AtomicOp op, Dtype dtype, const Call& call);
/// The dtype of the atomic mode that is on.
void SetAtomicDtype(Dtype dtype, const Call& call);
void CleanCache(const GlobalView& view, bool whole, const Call& call);

// --- cube cores ---
/// Counts an instruction that has no effect on results.
void Issue(const Call& call);
void SetPreQuantScalar(uint64_t scalar, const Call& call);
/// Such bits for each column, in the fixpipe buffer or in L1.
void SetPreQuantTensor(const LocalView& scales, const Call& call);
void SetMatricesOfStore(int64_t count, int64_t srcStride, int64_t dstStride, const Call& call);

/// Copies matrices of global memory to fractals. Source strides and `dstMatrixStride` are in elements, the other
/// strides in units of 32 bytes.
struct NzCopy {
    int64_t matrices;
    int64_t rows;
    int64_t columns;
    int64_t srcMatrixStride;
    int64_t srcRowStride;
    int64_t dstColumnStride;
    int64_t dstRowStride;
    int64_t dstMatrixStride;
};
/// Loads units from L1 to L0. A unit is a fractal of 512 bytes or, if transposed, a square of one (2-byte types), two
/// (1-byte and 4-byte types) or four fractals (half bytes). `start` and `srcStride` count units; gaps count fractals.
struct FractalLoad {
    int64_t start;
    int64_t repeats;
    int64_t srcStride;
    int64_t dstGap;
    int64_t dstFractalGap = 0;
    bool isTransposed = false;
    bool isHalfByte = false;    ///< two elements in each byte
    bool isDescending = false;  ///< each repeat begins `srcStride` before the previous one
};
/// The windows of a convolution: a filter that moves over an image.
struct Filter {
    int64_t width = 1;
    int64_t height = 1;
    int64_t strideX = 1;
    int64_t strideY = 1;
    int64_t dilationX = 1;
    int64_t dilationY = 1;
};
/// A part of a matrix of `rows` x `columns` in L1, or of the matrix of an image: a row for each position of the filter,
/// and columns for its points and the channels.
struct WindowLoad {
    int64_t rows;     ///< 0: that of the image of SetImage
    int64_t columns;  ///< of an image: its channels
    int64_t firstRow;
    int64_t rowCount;
    int64_t firstColumn;
    int64_t columnCount;
    bool isTransposed;     ///< applies to L0A; L0B is always transposed
    bool isRight = false;  ///< uses the second image of SetImage
    Filter filter = {};
};
/// Parts of the matrix of an image that one instruction loads: `stride` apart in 16 rows or in columns of 32 bytes.
struct ImageRepeats {
    int64_t stride = 0;
    int64_t times = 1;
    bool alongColumns = false;
};
/// Blocks of 32 (L1) or 512 bytes (L0).
struct BlockRuns {
    int64_t repeats;
    int64_t blocks;
    int64_t gap;
};
struct Product {
    int64_t m;
    int64_t n;
    int64_t k;
    int64_t unitFlag;
    bool hasWideK;  ///< float: k of L0A is padded to 16 instead of 8
    bool startsAtBias;
    bool startsAtZero;
    bool isSparse = false;  ///< the right factor has two of four elements of k
};
struct ProductStore {
    int64_t rows;
    int64_t columns;
    int64_t srcStride;  ///< unit: 16 elements of L0C; between rows of a fractal column
    int64_t dstStride;  ///< rows: pitch in elements; fractal columns: distance in units of 32 bytes
    uint32_t quantMode;
    bool relu;
    int64_t unitFlag;
    uint64_t quantScalar = 0;                ///< bits of a float, and of an offset
    const LocalView* quantTensor = nullptr;  ///< such bits for each column, in L1 or in the fixpipe buffer
    bool usesRegisters = false;        ///< takes scalar and matrices from SetFixpipePreQuantFlag, SetFixpipeNz2ndFlag
    bool isInteger = false;            ///< the sums are int32_t
    const uint64_t* scales = nullptr;  ///< of quantization; the low 32 bits are a float, bits 37..45 an offset
    bool isScaledByColumn = false;     ///< a scale for each column, else one for all
    bool splitsChannels = false;       ///< fractals of float have 8 columns
};
void CopyInNz(const LocalView& dst, const GlobalView& src, const NzCopy& copy, const Call& call);
/// Copies matrices of columns of 16 elements in the unified buffer to rows of global memory. Strides are in elements.
struct NdCopy {
    int64_t matrices;
    int64_t rows;
    int64_t columns;
    int64_t srcMatrixStride;
    int64_t srcColumnStride;
    int64_t dstRowStride;
    int64_t dstMatrixStride;
};
void CopyOutNd(const GlobalView& dst, const LocalView& src, const NdCopy& copy, const Call& call);
void LoadFractals(const LocalView& dst, const LocalView& src, const FractalLoad& load, const Call& call);
/// Loads fractals to L0B, and their indices to the memory beside it.
void LoadSparse(const LocalView& dst, const LocalView& src, const LocalView& indices, int64_t start, int64_t repeats,
                const Call& call);
/// `fractals` of 1024 bytes, `count` times; gaps in fractals of L0C and in blocks of the unified buffer.
struct SumCopy {
    int64_t count;
    int64_t fractals;
    int64_t srcGap;
    int64_t dstGap;
};
void CopySums(const LocalView& dst, const LocalView& src, const SumCopy& copy, const Call& call);
/// Loads fractals from global memory to L1, L0A or L0B.
void LoadFractalsIn(const LocalView& dst, const GlobalView& src, const FractalLoad& load, const Call& call);
/// Sets the size of the image that LoadWindow loads from, and its points of padding: left, right, top, bottom.
void SetImage(int64_t height, int64_t width, const uint8_t* padding, bool isRight, const Call& call);
/// The bits of the elements in the padding of images.
void SetImagePadding(uint64_t value, const Call& call);
void SetImageRepeats(const ImageRepeats& repeats, const Call& call);
void LoadWindow(const LocalView& dst, const LocalView& src, const WindowLoad& load, const Call& call);
/// The formats and conversions of SetAippFunctions.
struct PictureSettings {
    struct Channel {
        uint64_t padding = 0;  ///< bits of dst
        int32_t mean = 0;
        float least = 0.0F;
        float factor = 1.0F;
    };

    AscendC::AippInputFormat format{};
    int64_t paddingMode = 0;
    Channel of[4];
    bool swapsRB = false;
    bool swapsUV = false;
    bool swapsAX = false;
    bool isOneLine = false;
    bool hasColors = false;  ///< the matrix converts the colors
    int32_t matrix[3][3]{};
    int32_t biasIn[3]{};   ///< YUV to RGB
    int32_t biasOut[3]{};  ///< RGB to YUV
    int64_t channels = 0;  ///< of dst
    uint64_t channelPadding = 0;
    Dtype dtype = Dtype::kOther;  ///< of dst
};
/// A part of an image, in points.
struct PicturePart {
    int64_t width;
    int64_t height;
    int64_t left;
    int64_t top;
    int64_t srcWidth;
    int64_t topPadding;
    int64_t bottomPadding;
    int64_t leftPadding;
    int64_t rightPadding;
};
/// Sets the image that LoadPicture loads to L1; `src1` has the colors of YUV420SP.
void SetPicture(const GlobalView& src0, const GlobalView& src1, const PictureSettings& settings, const Call& call);
void LoadPicture(const LocalView& dst, const PicturePart& part, const Call& call);
void FillConstant(const LocalView& dst, const BlockRuns& runs, uint64_t value, const Call& call);
/// `bias` may be null.
void Multiply(const LocalView& dst, const LocalView& a, const LocalView& b, const LocalView* bias,
              const Product& product, const Call& call);
void SetHf32(bool isOn, const Call& call);
void SetHf32Truncation(bool isOn, const Call& call);
void RequireCubeCore(const Call& call);
/// Stores to global memory as rows, or as columns of 16 x 16 fractals.
void StoreProduct(const GlobalView& dst, const LocalView& src, const ProductStore& store, bool asRows,
                  const Call& call);
/// Stores to L1 as columns of fractals.
void KeepProduct(const LocalView& dst, const LocalView& src, const ProductStore& store, const Call& call);

// --- scalar unit ---
uint64_t ReadGlobal(const GlobalView& view, uint64_t index, const Call& call);
void WriteGlobal(const GlobalView& view, uint64_t index, uint64_t value, const Call& call);
uint64_t ReadLocal(const LocalView& view, int64_t index, const Call& call);
void WriteLocal(const LocalView& view, int64_t index, uint64_t value, const Call& call);

// --- buffers and queues ---
uint32_t OpenPipe(void* pipe, const Call& call);
void ReplacePipe(void* pipe, const void* other, const Call& call);
void ClosePipe(void* pipe, bool waits, const Call& call);
void ResetPipe(const Call& call);
void* LivePipe(const Call& call);
/// `pool` is a TBufPool, or kNoBuffer for the TPipe.
uint32_t AddQueue(uint32_t pool, AscendC::TPosition source, AscendC::TPosition destination, int64_t depth,
                  int64_t buffers, int64_t bytes, const Call& call);
/// The address and the length of a buffer in bytes.
struct AddressRange {
    int64_t address;
    int64_t bytes;
};
uint32_t AddQueueAt(uint32_t pool, AscendC::TPosition source, AscendC::TPosition destination, int64_t depth,
                    std::initializer_list<AddressRange> ranges, const Call& call);
LocalView AddScratch(uint32_t pool, AscendC::TPosition position, int64_t bytes, const Call& call);
/// Divides the memory of `parent`; with `shared`, the pool has the addresses of that pool.
uint32_t AddPool(uint32_t parent, AscendC::TPosition position, int64_t bytes, uint32_t shared, int64_t mostBuffers,
                 const Call& call);
void ResetPool(uint32_t pool, const Call& call);
// Pools whose class the kernel defines: a queue without buffers, and buffers at an address of the memory.
uint32_t StartQueue(AscendC::TPosition source, AscendC::TPosition destination, int64_t depth, int64_t buffers,
                    const Call& call);
void PlaceBuffer(uint32_t queue, uint32_t pool, AscendC::TPosition position, int64_t index, int64_t address,
                 int64_t bytes, const Call& call);
LocalView PlaceScratch(uint32_t pool, AscendC::TPosition position, int64_t address, int64_t bytes, const Call& call);
/// The address at which the pool begins.
int64_t PoolAddress(uint32_t pool, AscendC::TPosition position, const Call& call);
LocalView AllocateFrom(uint32_t queue, const Call& call);
void Enqueue(uint32_t queue, const LocalView& view, const Call& call);
LocalView Dequeue(uint32_t queue, const Call& call);
/// A step of a tensor through a queue whose ends are further apart: its pipes follow from these positions.
struct QueueEnds {
    AscendC::TPosition source;
    AscendC::TPosition destination;
};
void Enqueue(uint32_t queue, const LocalView& view, const QueueEnds& ends, const Call& call);
LocalView Dequeue(uint32_t queue, const QueueEnds& ends, const Call& call);
void Release(uint32_t queue, const LocalView& view, const Call& call);
int64_t FilledBuffers(uint32_t queue, const Call& call);
int64_t IdleBuffers(uint32_t queue, const Call& call);
/// Waits for the flags of the free buffers, and releases their event ids.
void FreeEvents(uint32_t queue, const Call& call);
/// Reports a finding and stops the block: the kernel requested a view of `bytes` from `view`.
LocalView Slice(const LocalView& view, int64_t offsetBytes, int64_t bytes, const Call& call);

// --- synchronization ---
int32_t FetchEvent(AscendC::HardEvent event, const Call& call);
int32_t AllocateEvent(AscendC::HardEvent event, const Call& call);
void ReleaseEvent(AscendC::HardEvent event, int64_t id, const Call& call);
void Set(AscendC::HardEvent event, int64_t id, const Call& call);
void Wait(AscendC::HardEvent event, int64_t id, const Call& call);
void Barrier(pipe_t pipe, const Call& call);
void SyncCores(bool isAivOnly, const Call& call);
void SyncCoresSoft(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t usedCores, const Call& call);
/// A flag of 32 bytes in global memory, which a core sets and another one takes.
void SetGmFlag(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t block, int64_t event,
               const Call& call);
void WaitGmFlag(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, int64_t block, int64_t event,
                const Call& call);
/// The order of blocks: each waits for the one before it; the first one waits from the second time on.
/// Flags of GroupBarrier: `senders` cores set one for each of `receivers` cores. The workspace has 512 bytes for each
/// receiver.
struct GroupFlags {
    uint64_t workspace;
    uint32_t senders;
    uint32_t receivers;
};
void ArriveAtGroup(const GroupFlags& flags, int64_t sender, const Call& call);
void WaitForGroup(const GroupFlags& flags, int64_t receiver, const Call& call);
void InitBlockOrder(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call);
void WaitForPrevious(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call);
void NotifyNext(const GlobalView& gmWorkspace, const LocalView& ubWorkspace, const Call& call);
void SetCrossCore(int64_t mode, pipe_t pipe, int64_t flag, const Call& call);
void WaitCrossCore(int64_t flag, const Call& call);

// --- the kernel's own stack ---
/// Reports that the kernel accessed element `index`, which is outside the array.
[[noreturn]] void LeaveArray(const Location& at, const char* array, int64_t index);
/// Reports that a function of the kernel wrote past the end of its stack frame.
[[noreturn]] void LoseFrame();

// --- launch ---
int64_t BlockIndex();
int64_t BlockCount();
bool IsCubeCore();
bool IsVectorCore();
int64_t SubBlockIndex();
/// Returns the number of cores of this type per AI core.
int64_t SubBlockCount();
volatile uint8_t* UserWorkspace();
volatile uint8_t* SystemWorkspace();
void DeclareTaskType(KernelMetaType type, const Call& call);
uint64_t TilingKey();
bool TilingKeyIs(uint64_t key);
/// Copies `bytes` of the tiling blob from `offset`; `tiling` must be the kernel's tiling argument.
void ReadTiling(void* destination, uint64_t offset, uint64_t bytes, volatile const uint8_t* tiling, const Call& call);
/// Bytes of all buffers in the unified buffer, by the tiling plan; 0: not known.
void PlanUnifiedBuffer(int64_t bytes);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_RUNTIME_H
