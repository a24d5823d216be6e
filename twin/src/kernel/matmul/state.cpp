// Matmul objects: the parameters that the kernel sets, and the calls that compute.
#include <algorithm>

#include "kernel/exec/levels.h"
#include "kernel/exec/scheduler.h"
#include "kernel/cube/fractal.h"
#include "kernel/matmul/engine.h"
#include "opforge_twin/arithmetic.h"

namespace opforge::twin::kernel {

namespace {

using AscendC::HardEvent;

constexpr int64_t kStageAlignment = 512;
constexpr int64_t kMostStageBytes = int64_t{256} * 1024;

Block& Current(const Call& call)
{
    return *Entry(call);
}

[[noreturn]] void Fail(const char* kind, const Call& call, const std::string& message)
{
    Current(call).Fail(kind, Pipe::kScalar, call, message);
}

/// The bytes of the system workspace that a vector core may use.
int64_t StageBytes(const Block& block)
{
    const int64_t cores = int64_t{block.launch.request.blockNum} * block.launch.layout.Type().vectors;
    const int64_t share = static_cast<int64_t>(kSystemWorkspaceBytes) / std::max<int64_t>(1, cores);
    return std::min(kMostStageBytes, RoundDown(share, kStageAlignment));
}

}  // namespace

void MatmulState::Register(uint64_t number, uint64_t workspace, bool isDirect, const Call& call)
{
    Block& block = Current(call);
    const bool isMixed = block.launch.layout.IsMixed();
    job.object = number;
    workspace_ = workspace;
    computesHere_ = isDirect || !isMixed;
    if (!computesHere_) {
        if (workspace == 0 && !job.config.enableMixDualMaster) {
            block.Fail("matmul_workspace", Pipe::kScalar, call,
                       "the workspace is null, but the cores of a mixed kernel exchange messages in the system "
                       "workspace; expected GetSysWorkSpacePtr(); pass it to REGIST_MATMUL_OBJ");
        }
        block.UseCubes(Block::CubeUse::kMatmul, call);
    }
    isIdle_ = !computesHere_ && block.position.kind == CoreKind::kCube;
}

void MatmulState::Init(const TCubeTiling& tiling, const Call& call)
{
    Block& block = Current(call);
    job.tiling = tiling;
    job.tiling.stepKa = std::max(job.tiling.stepKa, 1);
    job.tiling.stepKb = std::max(job.tiling.stepKb, 1);
    job.orgM = tiling.M;
    job.orgN = tiling.N;
    job.orgKa = tiling.Ka;
    job.orgKb = tiling.Kb;
    job.singleM = tiling.singleCoreM;
    job.singleN = tiling.singleCoreN;
    job.singleK = tiling.singleCoreK;
    nextTile_ = 0;
    isInitialised_ = true;
    if (isIdle_) {
        return;
    }
    RequireTiling(block, job, call);
    if (computesHere_ && block.position.kind == CoreKind::kCube) {
        ReserveBuffers(block, job, call);  // Those of a bias follow with the first product that adds it.
    }
}

void MatmulState::SetOperand(MatmulOperand& operand, const MatmulOperand& value, const Call& call)
{
    const bool isBias = &operand == &job.bias;
    if (isBias && !job.config.enableSetBias) {
        Fail("matmul_bias", call, "the MatmulConfig has enableSetBias = false; remove SetBias or enable it");
    }
    const bool isHalf = value.dtype == Dtype::kFloat16 || value.dtype == Dtype::kBfloat16;
    const bool isOther = value.isTransposed != value.mayBeTransposed && (value.isTransposed || !isHalf);
    if (isOther && kDocumentedValues.Has(Current(call).launch.options.level)) {
        Fail("api_contract", call,
             Text("the call passes ", value.isTransposed, " for the transposition, but the MatmulType has ISTRANS ",
                  value.mayBeTransposed, ", expected the same; only half and bfloat16_t with ISTRANS 1 permit both"));
    }
    operand = value;
    nextTile_ = 0;
    isAsync_ = false;
    (isBias ? job.bias : operand) = value;
}

void MatmulState::SetTail(int64_t m, int64_t n, int64_t k, const Call& call)
{
    const bool isOther = (m != -1 && m != job.singleM) || (n != -1 && n != job.singleN);
    if (isOther) {
        RequireStored(call);
    }
    job.singleM = m != -1 ? m : job.singleM;
    job.singleN = n != -1 ? n : job.singleN;
    job.singleK = k != -1 ? k : job.singleK;
    nextTile_ = 0;
    if (isInitialised_ && !isIdle_ && (job.singleM <= 0 || job.singleN <= 0 || job.singleK <= 0)) {
        Fail("matmul_shape", call,
             Text("singleCoreM, singleCoreN, singleCoreK are ", job.singleM, ", ", job.singleN, ", ", job.singleK,
                  ", expected positive numbers; skip the product on cores without work"));
    }
}

void MatmulState::SetOrgShape(int64_t m, int64_t n, int64_t ka, int64_t kb, int64_t kc, const Call& call)
{
    if (m <= 0 || n <= 0 || ka <= 0 || kb <= 0 || kc < 0) {
        Fail("matmul_shape", call,
             Text("orgM, orgN, orgKa, orgKb are ", m, ", ", n, ", ", ka, ", ", kb, ", expected positive numbers"));
    }
    job.orgM = m;
    job.orgN = n;
    job.orgKa = ka;
    job.orgKb = kb;
    job.orgKc = kc;
}

int64_t MatmulState::TileCount() const
{
    return CeilDiv<int64_t>(job.singleM, job.tiling.baseM) * CeilDiv<int64_t>(job.singleN, job.tiling.baseN);
}

int64_t MatmulState::StepCount() const
{
    return job.config.isPartialOutput ? CeilDiv<int64_t>(job.singleK, job.tiling.baseK) : 1;
}

void MatmulState::RequireStored(const Call& call) const
{
    if (isTileReady_ && !isAsync_) {
        Fail("matmul_order", call, "the tile of the last Iterate was not stored; call GetTensorC before");
    }
}

void MatmulState::RequireAtomic(uint8_t atomic, const Call& call) const
{
    if (atomic > 3 && kDocumentedValues.Has(Current(call).launch.options.level)) {
        Fail("api_contract", call,
             Text("enAtomic is ", int{atomic}, ", expected 0 (store), 1 (add), 2 (maximum) or 3 (minimum)"));
    }
}

void MatmulState::RequirePartialOutput(bool isSequential, const Call& call) const
{
    if (job.config.isPartialOutput && (!isSequential || job.bias.place != MatmulPlace::kNone)) {
        Fail("matmul_order", call,
             "isPartialOutput returns the products of blocks of K: call Iterate and GetTensorC with enSequentialWrite, "
             "without bias");
    }
}

void MatmulState::RequireOperands(const Call& call) const
{
    if (!isInitialised_) {
        Fail("matmul_order", call,
             "the object has no tiling data; give them to REGIST_MATMUL_OBJ, or call Init before");
    }
    if (job.a.place == MatmulPlace::kNone || job.b.place == MatmulPlace::kNone) {
        Fail("matmul_order", call,
             Text(job.a.place == MatmulPlace::kNone ? "SetTensorA" : "SetTensorB",
                  " was not called since the object was made or End was called; call it before the product"));
    }
    if (job.b.isSparse && (job.sparseIndex.address == 0 || !computesHere_)) {
        Fail("matmul_order", call,
             "a sparse B needs SetSparseIndex before the product, in a kernel with ASCENDC_CUBE_ONLY");
    }
    if (job.tiling.isBias == 0 && job.bias.place != MatmulPlace::kNone) {
        Fail("matmul_bias", call,
             "SetBias was called, but isBias of the tiling data is 0; call EnableBias(true) in the tiling function");
    }
}

void MatmulState::Submit(const MatmulJob& part, bool isSync, const Call& call)
{
    Block& block = Current(call);
    if (computesHere_) {
        RunMatmul(block, part, call);
        return;
    }
    block.launch.scheduler->Post(block, part, call);
    ++open_;
    if (isSync) {
        AwaitAll(call);
    }
}

void MatmulState::AwaitAll(const Call& call)
{
    Block& block = Current(call);
    for (; open_ > 0; --open_) {
        block.launch.scheduler->AwaitAnswer(block, call);
    }
}

int64_t MatmulState::Stage(MatmulJob& part, const Call& call)
{
    Block& block = Current(call);
    int64_t used = 0;
    const auto stage = [&](MatmulOperand& operand, int64_t rows, int64_t columns) {
        if (operand.place != MatmulPlace::kUnifiedBuffer) {
            return;
        }
        if (computesHere_) {
            block.Fail("matmul_position", Pipe::kScalar, call,
                       "an operand is in the unified buffer, which a cube core cannot access; use a mixed kernel");
        }
        if (used == 0) {
            AwaitAll(call);  // the cube core may still read what was staged before
            Barrier(PIPE_ALL, call);
        }
        const bool isFractal = operand.format == CubeFormat::NZ;
        const int64_t bytes =
            (isFractal ? RoundUp<int64_t>(rows, kFractalRows) * RoundUp<int64_t>(columns, ElementsOfBlock(operand))
                       : rows * columns) *
            operand.size / operand.packed;
        GlobalView place;
        place.address = workspace_ + block.position.blockIndex * static_cast<uint64_t>(StageBytes(block)) +
                        static_cast<uint64_t>(used);
        place.begin = place.address;
        place.dtype = operand.dtype;
        place.size = operand.size;
        used += RoundUp<int64_t>(bytes, kStageAlignment);
        if (workspace_ == 0 || used > StageBytes(block)) {
            block.Fail("matmul_workspace", Pipe::kScalar, call,
                       workspace_ == 0 ? std::string("the product uses the system workspace, but the kernel has none; "
                                                     "pass GetSysWorkSpacePtr() to REGIST_MATMUL_OBJ")
                                       : Text("operands in the unified buffer take ", used, " bytes, expected at most ",
                                              StageBytes(block)));
        }
        block.execution.EnterLibrary();
        CopyOut(place, operand.local, {1, bytes, 0, 0}, true, call);
        block.execution.LeaveLibrary();
        operand.place = MatmulPlace::kGlobal;
        operand.global = place;
    };
    const bool isInUb = part.a.place == MatmulPlace::kUnifiedBuffer;
    const int64_t rowsA = part.a.isTransposed ? part.singleK : part.singleM;
    const int64_t columnsA = part.a.isTransposed ? part.singleM : part.singleK;
    stage(part.a, rowsA, columnsA);
    if (isInUb) {
        part.pitchA = columnsA;
        part.rowsA = rowsA;
    }
    const bool isRightInUb = part.b.place == MatmulPlace::kUnifiedBuffer;
    const int64_t rowsB = part.b.isTransposed ? part.singleN : part.singleK;
    const int64_t columnsB = part.b.isTransposed ? part.singleK : part.singleN;
    stage(part.b, rowsB, columnsB);
    if (isRightInUb) {
        part.pitchB = columnsB;
        part.rowsB = rowsB;
    }
    stage(part.bias, 1, part.singleN);
    return used;
}

bool MatmulState::Iterate(bool accumulates, const LocalView* tile, bool isSync, const Call& call)
{
    if (isIdle_) {
        return false;
    }
    RequireOperands(call);
    if (isSync && tile == nullptr && !accumulates) {
        RequireStored(call);
    }
    const int64_t steps = StepCount();
    if (nextTile_ >= TileCount() * steps) {
        nextTile_ = 0;
        isTileReady_ = false;
        return false;
    }
    if (accumulates && TileCount() > 1) {
        Fail("matmul_shape", call,
             "enPartialSum adds to the tile in L0C; expected singleCoreM = baseM and singleCoreN = baseN");
    }
    MatmulJob part = job;
    part.accumulates = accumulates;
    part.firstTile = nextTile_ / steps;
    part.tiles = 1;
    part.onlyBlock = job.config.isPartialOutput ? nextTile_ % steps : -1;
    if (!isSync && !computesHere_) {
        RequirePartialOutput(false, call);
        if (results_.address == 0) {
            Fail("matmul_order", call, "an asynchronous Iterate stores tiles in a workspace; call SetWorkspace before");
        }
        if (nextTile_ == 0) {
            part.tiles = TileCount();
            part.isSequential = true;
            part.c.place = MatmulPlace::kGlobal;
            part.c.global = results_;
            Stage(part, call);
            Submit(part, false, call);
            nextResult_ = 0;
        }
        isAsync_ = true;
    } else {
        part.stores = false;
        part.hasOwnTile = tile != nullptr;
        part.ownTile = tile != nullptr ? *tile : LocalView{};
        Stage(part, call);
        Submit(part, false, call);
        isAsync_ = false;
    }
    lastTile_ = nextTile_++;
    isTileReady_ = true;
    return true;
}

void MatmulState::Deliver(MatmulJob part, const MatmulOperand& c, bool isSequential, const Call& call)
{
    Block& block = Current(call);
    if (computesHere_) {
        block.Fail("matmul_position", Pipe::kScalar, call,
                   "C is in the unified buffer, which a cube core cannot access; use a mixed kernel");
    }
    const MatmulTile tile = TileOf(part, part.firstTile);
    const bool isWhole = part.tiles > 1;
    const int64_t rows = isWhole ? part.singleM : tile.rows;
    const int64_t columns = isWhole ? part.singleN : tile.columns;
    const int64_t unit = kBlockBytes / c.size;
    const bool isFractal = c.format == CubeFormat::NZ;
    if (!isFractal && c.format != CubeFormat::ND_ALIGN && columns % unit != 0) {
        block.Fail("matmul_shape", Pipe::kScalar, call,
                   Text("C in the unified buffer has rows of ", columns, " elements, expected multiples of ", unit,
                        " in format ND; use CubeFormat::ND_ALIGN"));
    }
    const int64_t pitch = isSequential ? RoundUp<int64_t>(columns, unit) : RoundUp<int64_t>(part.singleN, unit);
    const int64_t used = Stage(part, call);
    const int64_t width = isFractal ? RoundUp<int64_t>(columns, kFractalRows) : RoundUp<int64_t>(columns, unit);
    const int64_t height = isFractal ? RoundUp<int64_t>(rows, kFractalRows) : rows;
    if (workspace_ == 0 || used + width * height * c.size > StageBytes(block)) {
        block.Fail(
            "matmul_workspace", Pipe::kScalar, call,
            Text("C is copied to the unified buffer through the system workspace: ", used + width * height * c.size,
                 " bytes, expected at most ", workspace_ == 0 ? 0 : StageBytes(block),
                 "; pass GetSysWorkSpacePtr() to REGIST_MATMUL_OBJ, and use smaller tiles"));
    }
    part.c = c;
    part.c.place = MatmulPlace::kGlobal;
    part.c.global = {};
    part.c.global.address =
        workspace_ + block.position.blockIndex * static_cast<uint64_t>(StageBytes(block)) + static_cast<uint64_t>(used);
    part.c.global.begin = part.c.global.address;
    part.c.global.dtype = c.dtype;
    part.c.global.size = c.size;
    part.isSequential = !isWhole;
    part.storePitch = width;
    if (isFractal) {
        part.orgM = rows;
    }
    Submit(part, true, call);
    // The tensor may have been used by any pipe, and may be used by any next.
    Barrier(PIPE_ALL, call);
    const int64_t offset = isSequential || isWhole ? 0 : (tile.row * pitch + tile.column) * c.size;
    LocalView dst = c.local;
    dst.address += offset;
    block.execution.EnterLibrary();
    if (isFractal) {
        CopyIn(dst, part.c.global, {1, width * height * c.size, 0, 0}, nullptr, call);
    } else {
        const Padding padding;
        constexpr int64_t kMostRows = 4095;
        for (int64_t row = 0; row < rows; row += kMostRows) {
            GlobalView src = part.c.global;
            src.address += static_cast<uint64_t>(row * width * c.size);
            LocalView to = dst;
            to.address += row * pitch * c.size;
            CopyIn(to, src,
                   {std::min(kMostRows, rows - row), columns * c.size, (width - columns) * c.size,
                    (pitch - RoundUp<int64_t>(columns, unit)) * c.size},
                   &padding, call);
        }
    }
    block.execution.LeaveLibrary();
    Barrier(PIPE_ALL, call);
}

void MatmulState::IterateAll(const MatmulOperand& c, uint8_t atomic, bool isSequential, bool isSync, bool isAwaited,
                             bool isFake, const Call& call)
{
    if (isIdle_ || isFake) {
        return;
    }
    RequireOperands(call);
    RequirePartialOutput(false, call);
    RequireAtomic(atomic, call);
    MatmulJob part = job;
    part.c = c;
    part.atomic = atomic;
    part.isSequential = isSequential;
    part.firstTile = 0;
    part.tiles = TileCount();
    if (c.place == MatmulPlace::kUnifiedBuffer) {
        Deliver(part, c, false, call);
        return;
    }
    Stage(part, call);
    Submit(part, isSync, call);
    static_cast<void>(isAwaited);
}

void MatmulState::GetTensor(const MatmulOperand& c, uint8_t atomic, bool isSequential, bool isSync, const Call& call,
                            bool isAgain)
{
    if (isIdle_) {
        return;
    }
    if (isAsync_) {
        GlobalView source = NextResult(call);
        source.dtype = c.dtype;
        source.size = c.size;
        if (c.place != MatmulPlace::kUnifiedBuffer) {
            Fail("matmul_position", call,
                 "after an asynchronous Iterate, GetTensorC copies a tile to the unified buffer; use the GlobalTensor "
                 "that GetTensorC<false>() returns");
        }
        Block& block = Current(call);
        Barrier(PIPE_ALL, call);
        block.execution.EnterLibrary();
        CopyIn(c.local, source, {1, c.local.end - c.local.address, 0, 0}, nullptr, call);  // also without isSequential
        block.execution.LeaveLibrary();
        Barrier(PIPE_ALL, call);
        return;
    }
    if (!isTileReady_ && !isAgain) {
        Fail("matmul_order", call, "there is no tile to store; GetTensorC follows an Iterate that returned true");
    }
    RequireAtomic(atomic, call);
    MatmulJob part = job;
    part.c = c;
    part.atomic = atomic;
    part.isSequential = isSequential;
    part.multiplies = false;
    part.firstTile = lastTile_ / StepCount();
    part.tiles = 1;
    RequirePartialOutput(isSequential, call);
    isTileReady_ = false;
    if (c.place == MatmulPlace::kUnifiedBuffer) {
        part.a.place = part.b.place = part.bias.place = MatmulPlace::kNone;
        Deliver(part, c, isSequential, call);
        return;
    }
    Submit(part, isSync, call);
}

GlobalView MatmulState::NextResult(const Call& call)
{
    if (!isAsync_ || nextResult_ >= TileCount()) {
        Fail("matmul_order", call,
             isAsync_ ? "all tiles were copied already; call it once for each tile"
                      : "there is no result in the workspace; call Iterate<false> before");
    }
    AwaitAll(call);
    GlobalView view = results_;
    view.address += static_cast<uint64_t>(nextResult_++ * job.tiling.baseM * job.tiling.baseN * job.c.size);
    return view;
}

MatrixOffset MatmulState::Offset() const
{
    const MatmulTile tile = TileOf(job, lastTile_ / StepCount());
    return {static_cast<int32_t>(tile.row * job.orgN + tile.column), static_cast<int32_t>(tile.row),
            static_cast<int32_t>(tile.column), static_cast<int32_t>(tile.rows), static_cast<int32_t>(tile.columns)};
}

void MatmulState::End(const Call& call)
{
    static_cast<void>(Current(call));
    job.a.place = MatmulPlace::kNone;
    job.b.place = MatmulPlace::kNone;
    job.bias.place = MatmulPlace::kNone;
    isTileReady_ = false;
    nextTile_ = 0;
}

bool ServesMatmul(bool isDirect)
{
    const Entry block({"REGIST_MATMUL_OBJ", {}});
    return !isDirect && block->launch.layout.IsMixed() && block->position.kind == CoreKind::kCube;
}

void ServeMatmul(const Call& call)
{
    Block& block = Current(call);
    for (Scheduler::MatmulRequest request; block.launch.scheduler->Take(block, request);) {
        RunMatmul(block, request.job, request.call);
        block.launch.scheduler->Answer(block, request);
    }
}

}  // namespace opforge::twin::kernel
