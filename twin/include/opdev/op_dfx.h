// The macros for the first statement of every aclnn and level 0 function. Phase 1 returns immediately if a parameter is
// not a live object.
#ifndef OPDEV_OP_DFX_H
#define OPDEV_OP_DFX_H

#include "opdev/op_log.h"
#include "opforge_twin/host/api_scope.h"

#define DFX_IN(...) opforge::twin::host::HandlesOf(__VA_ARGS__)
#define DFX_OUT(...) opforge::twin::host::HandlesOf(__VA_ARGS__)

#define L2_DFX_PHASE_1(APIName, IN, OUT)                                                         \
    static_assert(opforge::twin::host::IsSameText(__func__, #APIName "GetWorkspaceSize"),        \
                  "L2_DFX_PHASE_1(" #APIName ") belongs into " #APIName "GetWorkspaceSize");     \
    if (const aclnnStatus opforgeStatus = opforge::twin::host::BeginPlanning(#APIName, IN, OUT); \
        opforgeStatus != ACLNN_SUCCESS) {                                                        \
        return opforgeStatus;                                                                    \
    }                                                                                            \
    static_assert(true, "a semicolon follows")

#define L2_DFX_PHASE_2(APIName)                                           \
    static_assert(opforge::twin::host::IsSameText(__func__, #APIName),    \
                  "L2_DFX_PHASE_2(" #APIName ") belongs into " #APIName); \
    opforge::twin::host::BeginLaunch(#APIName)

#define L0_DFX(profilingName, ...)                                           \
    static_assert(opforge::twin::host::IsSameText(__func__, #profilingName), \
                  "L0_DFX(" #profilingName ") belongs into the function " #profilingName)

#endif  // OPDEV_OP_DFX_H
