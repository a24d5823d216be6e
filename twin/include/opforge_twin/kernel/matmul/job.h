// The interface between the Matmul templates and the twin runtime library.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_JOB_H
#define OPFORGE_TWIN_KERNEL_MATMUL_JOB_H

#include "opforge_twin/arithmetic.h"
#include "opforge_twin/kernel/matmul/config.h"
#include "opforge_twin/kernel/tensor.h"

namespace opforge::twin::kernel {

enum class MatmulPlace : uint8_t { kNone, kGlobal, kUnifiedBuffer, kL1, kScalar };

/// One matrix of a product, or its bias.
struct MatmulOperand {
    MatmulPlace place = MatmulPlace::kNone;
    CubeFormat format = CubeFormat::ND;
    LayoutMode layout = LayoutMode::NONE;
    bool isTransposed = false;
    bool mayBeTransposed = false;  ///< ISTRANS of its MatmulType
    Dtype dtype = Dtype::kOther;
    int32_t size = 1;  ///< bytes per element
    /// Elements of a row in `size` bytes: 2 for int4b_t, and for a sparse right factor, which has two of four elements.
    int32_t packed = 1;
    bool isSparse = false;
    GlobalView global;
    LocalView local;
    uint64_t scalar = 0;
};

using MatmulCopyOut = void (*)(const __gm__ void* gm, const AscendC::LocalTensor<int8_t>& co1Local,
                               const void* dataCopyOutParams, const uint64_t tilingPtr, const uint64_t dataPtr);
using MatmulCopyIn = void (*)(const AscendC::LocalTensor<int8_t>& matrix, const __gm__ void* gm, int row, int col,
                              int useRows, int useColumns, const uint64_t tilingPtr, const uint64_t dataPtr);

/// The elements in a block of 32 bytes of a row.
constexpr int64_t ElementsOfBlock(const MatmulOperand& operand)
{
    return opforge::twin::kBlockBytes / operand.size * operand.packed;
}

/// The base blocks of C that a product computes.
enum class MatmulTriangle : uint8_t { kWhole, kUpper, kLower };

enum class MatmulQuant : uint8_t { kNone, kScalar, kVector };

/// A product of one core, or a part of its tiles. Plain data: a vector core sends it to the cube core.
struct MatmulJob {
    uint64_t object = 0;  ///< owner of the buffers
    TCubeTiling tiling;
    MatmulConfig config;
    MatmulOperand a;
    MatmulOperand b;
    MatmulOperand bias;
    MatmulOperand c;
    int64_t orgM = 0;
    int64_t orgN = 0;
    int64_t orgKa = 0;
    int64_t orgKb = 0;
    int64_t orgKc = 0;  ///< row pitch of C; 0: orgN
    int64_t singleM = 0;
    int64_t singleN = 0;
    int64_t singleK = 0;
    int64_t pitchA = 0;  ///< row pitch of a layout with heads; 0: the inner axis
    int64_t pitchB = 0;
    int64_t rowsA = 0;  ///< of the stored matrix, if not those of orgM, orgN and orgK
    int64_t rowsB = 0;
    MatmulTriangle triangle = MatmulTriangle::kWhole;
    bool hasHf32 = false;
    bool truncatesHf32 = false;
    MatmulQuant quant = MatmulQuant::kNone;
    uint64_t quantScalar = 0;
    GlobalView quantVector;
    GlobalView sparseIndex;  ///< its fractals have 16 rows of 8 bytes
    uint8_t atomic = 0;
    bool isSequential = false;
    bool accumulates = false;  ///< on the tile that is in L0C
    bool multiplies = true;
    bool stores = true;
    int64_t firstTile = 0;
    int64_t tiles = 0;
    int64_t onlyBlock = -1;  ///< isPartialOutput: the block of K that is not added to others
    int64_t storePitch = 0;  ///< row pitch of a tile that is copied to the unified buffer through global memory
    bool hasOwnTile = false;
    LocalView ownTile;  ///< the tensor of the kernel in L0C
    MatmulCopyOut copyOut = nullptr;
    MatmulCopyIn copyA = nullptr;
    MatmulCopyIn copyB = nullptr;
    uint64_t tilingPointer = 0;
    uint64_t dataPointer = 0;
};

/// A Matmul object: its parameters and its progress. On a vector core of a mixed kernel, the cube core computes.
class MatmulState {
public:
    /// Registers the object; `isDirect`: the object computes on the calling core.
    void Register(uint64_t number, uint64_t workspace, bool isDirect, const Call& call);
    void Init(const TCubeTiling& tiling, const Call& call);
    void SetOperand(MatmulOperand& operand, const MatmulOperand& value, const Call& call);
    void DisableBias() { job.bias.place = MatmulPlace::kNone; }
    void SetTail(int64_t m, int64_t n, int64_t k, const Call& call);
    void SetOrgShape(int64_t m, int64_t n, int64_t ka, int64_t kb, int64_t kc, const Call& call);
    void SetWorkspace(const GlobalView& view) { results_ = view; }
    bool Iterate(bool accumulates, const LocalView* tile, bool isSync, const Call& call);
    void IterateAll(const MatmulOperand& c, uint8_t atomic, bool isSequential, bool isSync, bool isAwaited, bool isFake,
                    const Call& call);
    void IterateBatch(const MatmulOperand& c, int64_t batchA, int64_t batchB, bool isSequential, int64_t strideA,
                      int64_t strideB, bool isSync, bool isAwaited, const Call& call);
    void IterateNBatch(const MatmulOperand& c, int64_t loops, int64_t batchA, int64_t batchB, bool isSequential,
                       int64_t strideA, int64_t strideB, bool isSync, bool isAwaited, const Call& call);
    /// `isAgain`: the tile was already stored to another location.
    void GetTensor(const MatmulOperand& c, uint8_t atomic, bool isSequential, bool isSync, const Call& call,
                   bool isAgain = false);
    /// The tile in the workspace of an asynchronous Iterate.
    GlobalView NextResult(const Call& call);
    GlobalView NextBatch(int64_t batchA, int64_t batchB, const Call& call);
    void AwaitAll(const Call& call);
    MatrixOffset Offset() const;
    void End(const Call& call);

    MatmulJob job;

private:
    /// Checks the settings of a product before it starts.
    void RequireOperands(const Call& call) const;
    /// Runs a part of the job here or on the cube core, and waits for its end if `isSync`.
    void Submit(const MatmulJob& part, bool isSync, const Call& call);
    /// Copies operands of the unified buffer to the system workspace, where the cube core reads them. Returns the
    /// number of bytes used.
    int64_t Stage(MatmulJob& part, const Call& call);
    /// Computes or stores tiles to the unified buffer by way of the system workspace.
    void Deliver(MatmulJob part, const MatmulOperand& c, bool isSequential, const Call& call);
    void Batch(const MatmulOperand& c, int64_t first, int64_t batchA, int64_t batchB, int64_t strideA, int64_t strideB,
               bool isSync, const Call& call);
    int64_t TileCount() const;
    /// How often Iterate returns each tile: once, or for each block of K.
    int64_t StepCount() const;
    void RequireBatches(int64_t loops, int64_t batchA, int64_t batchB, const Call& call) const;
    void RequireStored(const Call& call) const;
    void RequireAtomic(uint8_t atomic, const Call& call) const;
    void RequirePartialOutput(bool isSequential, const Call& call) const;

    uint64_t workspace_ = 0;
    bool isInitialised_ = false;
    bool computesHere_ = true;  ///< on the calling core
    bool isIdle_ = false;       ///< the cube core of a mixed kernel: its vector cores call
    bool isTileReady_ = false;  ///< Iterate has computed a tile that GetTensorC may store
    bool isAsync_ = false;      ///< Iterate has stored all tiles in the workspace
    int64_t nextTile_ = 0;      ///< the next tile of Iterate
    int64_t lastTile_ = 0;      ///< the tile that GetTensorC stores
    int64_t nextResult_ = 0;    ///< the next tile that GetTensorC reads from the workspace
    int64_t open_ = 0;          ///< unfinished jobs
    GlobalView results_;        ///< SetWorkspace
};

/// The rows and columns of a tile in the C of a core.
struct MatmulTile {
    int64_t row;
    int64_t rows;
    int64_t column;
    int64_t columns;
    int64_t rowTile;
    int64_t columnTile;
};
MatmulTile TileOf(const MatmulJob& job, int64_t index);

/// Whether this core only executes requests of the vector cores of its AI core.
bool ServesMatmul(bool isDirect);
/// Runs the products that vector cores send, until all vector cores have ended.
void ServeMatmul(const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_JOB_H
