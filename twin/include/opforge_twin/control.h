/* Steering the twin from outside of acl: options, reports, and single host functions or plugins of packages.
   Every const char* is valid until the next call of the same function on the same thread. */
#ifndef OPFORGE_TWIN_CONTROL_H
#define OPFORGE_TWIN_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* "soc", "strict" ("0" or "1"), "threads", "seed", "unread" (inputs separated by commas). 0: done; 2: unknown name or
   value, the message is in aclGetRecentErrMsg. */
int opforgeTwinSetOption(const char* name, const char* value);

/* JSON array of the reports of all launches of the process since the last call:
   op_type, tiling_key, blocks, gm_bytes_read, gm_bytes_written, first_touch_bytes, dma_count, balance, minimal_bytes,
   findings: [{kind, block, pipe, where, message}] */
const char* opforgeTwinTakeReports(void);

/* Runs a kernel of a library on buffers of the host; JSON of its report, without minimal_bytes. workspaceBytes: of the
   kernel's own part of the workspace. */
const char* opforgeTwinLaunch(const char* libraryPath, const char* symbol, const char* taskType, const char* soc,
                              uint32_t blocks, uint64_t tilingKey, const void* tiling, uint64_t tilingBytes,
                              void** buffers, const uint64_t* bytes, uint64_t bufferCount, uint64_t workspaceBytes,
                              int passWorkspace, int passTiling);

/* Loads the host libraries of an installed package, and its parser plugins. 0: done; 2: a library could not be loaded,
   the message is in aclGetRecentErrMsg. */
int opforgeTwinLoadPackage(const char* vendorDir);

/* A call of one operator's host functions, built argument by argument in IR order. It ends with
   opforgeTwinDestroyCall. */
typedef struct opforgeTwinCall opforgeTwinCall;
opforgeTwinCall* opforgeTwinCreateCall(const char* opType);
void opforgeTwinDestroyCall(opforgeTwinCall* call);
/* The next input or output. rank -1: absent. dims may hold -1; dims {-2} is an unknown rank. dtype is a ge::DataType.
   values: `valueBytes` bytes on the host that stay valid until the call ends, or null. */
void opforgeTwinAddInput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype, const void* values,
                         uint64_t valueBytes);
/* Between which shapes the last input lies, as many dims each as it has; without this call known dims are fixed and
   unknown ones lie between 0 and -1, which is without end. */
void opforgeTwinSetRange(opforgeTwinCall* call, const int64_t* lowest, const int64_t* highest);
void opforgeTwinAddOutput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype);
/* The next attribute; the default of the operator with opforgeTwinAddDefault. */
void opforgeTwinAddInt(opforgeTwinCall* call, int64_t value);
void opforgeTwinAddFloat(opforgeTwinCall* call, float value);
void opforgeTwinAddBool(opforgeTwinCall* call, int value);
void opforgeTwinAddText(opforgeTwinCall* call, const char* value);
void opforgeTwinAddInts(opforgeTwinCall* call, const int64_t* values, uint64_t count);
void opforgeTwinAddDefault(opforgeTwinCall* call);
/* JSON: {"outputs": [{"dims": [..], "dtype": n}]} or {"error": ".."}. Outputs need not be added: they get as many as
   the operator has. */
const char* opforgeTwinInfer(opforgeTwinCall* call);
/* JSON: {"outputs": [{"lowest": [..], "highest": [..]}]} or {"error": ".."}. */
const char* opforgeTwinInferRange(opforgeTwinCall* call);
/* JSON: {"tiling_key", "block_dim", "schedule_mode", "workspaces": [..], "data": "<hex>"} or {"error": ".."}. */
const char* opforgeTwinTile(opforgeTwinCall* call);

/* JSON array of the registered parser plugins: {"om_type", "framework", "keys": [..]}. */
const char* opforgeTwinPlugins(void);
/* Parses a node as the ONNX parser would: attributes is its JSON text {"attribute": [..]}, inputs has "" for omitted
   positions. JSON: {"om_type", "inputs": [..], "outputs": [..], "attributes": {name: value}} or {"error": ".."}. */
const char* opforgeTwinParseNode(const char* key, const char* name, const char* domain, const char* attributes,
                                 const char* const* inputs, uint64_t inputCount, const char* const* outputs,
                                 uint64_t outputCount);

#ifdef __cplusplus
}
#endif

#endif /* OPFORGE_TWIN_CONTROL_H */
