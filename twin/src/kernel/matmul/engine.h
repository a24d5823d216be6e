// Products of a Matmul object on a cube core, from the basic instructions.
#ifndef OPFORGE_TWIN_KERNEL_MATMUL_ENGINE_H
#define OPFORGE_TWIN_KERNEL_MATMUL_ENGINE_H

#include <map>

#include "kernel/exec/block.h"
#include "opforge_twin/kernel/matmul/job.h"

namespace opforge::twin::kernel {

/// The buffers of the Matmul objects of a cube core.
struct MatmulBuffers {
    struct Object {
        LocalView a1;
        LocalView b1;
        LocalView indices;  ///< of a sparse right factor
        LocalView c1;
        LocalView co1;
    };

    LocalView a2;
    LocalView b2;
    LocalView c2;
    std::map<uint64_t, Object> objects;
};

/// Ends the block unless the tiling data satisfy the documented constraints.
void RequireTiling(Block& block, const MatmulJob& job, const Call& call);
/// Reserves the buffers of a job's object on this cube core.
void ReserveBuffers(Block& block, const MatmulJob& job, const Call& call);
/// Computes tiles on this cube core, and stores them if the job requires it.
void RunMatmul(Block& block, const MatmulJob& job, const Call& call);

}  // namespace opforge::twin::kernel

#endif  // OPFORGE_TWIN_KERNEL_MATMUL_ENGINE_H
