// The registers of a core that instructions set and later instructions read.
#ifndef OPFORGE_TWIN_KERNEL_EXEC_REGISTERS_H
#define OPFORGE_TWIN_KERNEL_EXEC_REGISTERS_H

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "kernel/exec/diagnostics.h"
#include "opforge_twin/kernel/system.h"

namespace opforge::twin::kernel {

/// SetVectorMask, SetMaskCount and SetMaskNorm.
struct VectorMask {
    uint64_t low = ~uint64_t{0};
    uint64_t high = ~uint64_t{0};
    bool isCounter = false;
    bool isChanged = false;
    Location changedAt;
    bool hasCount = false;  ///< SetVectorMask has set a count for counter mode
};

/// SetAtomicAdd and similar functions.
struct AtomicMode {
    AtomicOp op = AtomicOp::kNone;
    Dtype dtype = Dtype::kOther;
    Location at;
    const Region* region = nullptr;  ///< the first tensor that was stored to in this mode

    bool IsOn() const { return op != AtomicOp::kNone; }
};

/// SetHF32Mode and SetHF32TransMode.
struct Hf32Mode {
    bool isOn = false;       ///< float factors are rounded to HF32
    bool truncates = false;  ///< towards zero, else to nearest even
    Location at;
};

/// CMPMASK: a bit for each element of a repeat.
struct CompareMask {
    bool isSet = false;
    std::array<uint8_t, 16> bits{};
};

/// The result of the last reduction, for GetReduceRepeatSumSpr and GetReduceRepeatMaxMinSpr.
struct LastReduction {
    Dtype dtype = Dtype::kOther;
    float value = 0.0F;
    int64_t index = 0;
};

/// SetDeqScale: one of its three forms.
struct DequantScale {
    std::optional<float> scale;      ///< int32_t to half
    std::optional<uint64_t> bits;    ///< int16_t to one byte
    std::optional<LocalView> table;  ///< such bits for each element of a block
};

/// SetFmatrix.
struct Image {
    int64_t height;
    int64_t width;
    std::array<int64_t, 4> padding{};  ///< left, right, top, bottom
};

/// SetAippFunctions.
struct Picture {
    GlobalView src0;
    GlobalView src1;
    PictureSettings settings;
};

struct Registers {
    VectorMask mask;
    AtomicMode atomic;
    Hf32Mode hf32;
    DequantScale dequant;
    std::optional<uint64_t> preQuantScalar;      ///< SetFixpipePreQuantFlag
    std::optional<LocalView> preQuantTensor;     ///< SetFixPipeConfig
    std::optional<uint64_t> padding;             ///< SetPadValue
    bool hasMatrices = false;                    ///< SetFixpipeNz2ndFlag
    std::array<std::optional<Image>, 2> images;  ///< left and right
    std::optional<uint64_t> imagePadding;        ///< SetLoadDataPaddingValue
    std::optional<Picture> picture;              ///< SetAippFunctions
    ImageRepeats imageRepeats;                   ///< SetLoadDataRepeat
    std::vector<uint8_t> sparseIndices;          ///< of LoadDataWithSparse: a quarter of L0B; empty until it is used
    std::vector<bool> hasSparseIndices;          ///< a bit for each fractal
    std::optional<uint64_t> systemWorkspace;     ///< SetSysWorkspace with memory of the program
    bool isSaturating = false;                   ///< bit 48 of CTRL is 0
    std::array<uint64_t, static_cast<size_t>(Word::kCount)> words{};
    std::array<std::optional<BlockAddresses>, kAddressRegisters> blockAddresses;  ///< asc_set_va_reg
    CompareMask compareMask;
    LastReduction lastSum;
    LastReduction lastExtreme;
    std::optional<int64_t> compactedCount;                ///< elements that the last GatherMask kept
    std::optional<std::array<uint16_t, 4>> mergedCounts;  ///< entries that the last MrgSort took from each list

    /// Reports modes that are still on at the end of the kernel.
    void ReportLeft(Diagnostics& diagnostics, Level level) const;
};

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_EXEC_REGISTERS_H
