/* Control of the twin without acl: options, reports, and calls of single host functions or plugins of packages. Every
   returned const char* is valid until the next call of the same function on the same thread. */
#ifndef OPFORGE_TWIN_CONTROL_H
#define OPFORGE_TWIN_CONTROL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Names: "soc", "level" ("strict", "device" or "fast"), "strict" ("0": level fast, "1": level strict), "threads",
   "seed", "unread" and "overwritten" (inputs separated by commas). Returns 0 on success; 2 for an unknown name or
   value, with the message in aclGetRecentErrMsg. */
int opforgeTwinSetOption(const char* name, const char* value);

/* Returns the reports of all launches of the process since the last call as a JSON array. Members: op_type, tiling_key,
   blocks, gm_bytes_read, gm_bytes_written, first_touch_bytes, dma_count, balance, minimal_bytes, complete, findings:
   [{kind, block, pipe, where, message}] */
const char* opforgeTwinTakeReports(void);

/* Runs a kernel of a library on host buffers. Returns its report as JSON, without minimal_bytes. workspaceBytes: the
   size of the user part of the workspace. */
const char* opforgeTwinLaunch(const char* libraryPath, const char* symbol, const char* taskType, const char* soc,
                              uint32_t blocks, uint64_t tilingKey, const void* tiling, uint64_t tilingBytes,
                              void** buffers, const uint64_t* bytes, uint64_t bufferCount, uint64_t workspaceBytes,
                              int passWorkspace, int passTiling);

/* Loads the host libraries and parser plugins of an installed package. Returns 0 on success; 2 if a library cannot be
   loaded, with the message in aclGetRecentErrMsg. */
int opforgeTwinLoadPackage(const char* vendorDir);

/* A call of the host functions of one operator. Add the arguments in IR order. Destroy the call with
   opforgeTwinDestroyCall. */
typedef struct opforgeTwinCall opforgeTwinCall;
opforgeTwinCall* opforgeTwinCreateCall(const char* opType);
void opforgeTwinDestroyCall(opforgeTwinCall* call);
/* Adds the next input or output. rank -1: absent. dims may contain -1; dims {-2} is an unknown rank. dtype is a
   ge::DataType. values: `valueBytes` bytes of host memory that stay valid until the call ends, or null. */
void opforgeTwinAddInput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype, const void* values,
                         uint64_t valueBytes);
/* Sets the lowest and highest shape of the last input; both have the rank of the input. Without this function, known
   dims are fixed and unknown dims have the range 0 to -1 (no upper limit). */
void opforgeTwinSetRange(opforgeTwinCall* call, const int64_t* lowest, const int64_t* highest);
void opforgeTwinAddOutput(opforgeTwinCall* call, const int64_t* dims, int64_t rank, int32_t dtype);
/* Adds a tensor to the last input or output, which is a list of tensors. A rank of -1 begins an empty list. */
void opforgeTwinAddMember(opforgeTwinCall* call, int isInput, const int64_t* dims, int64_t rank, int32_t dtype);
/* Adds the next attribute. opforgeTwinAddDefault adds its default value. */
void opforgeTwinAddInt(opforgeTwinCall* call, int64_t value);
void opforgeTwinAddFloat(opforgeTwinCall* call, float value);
void opforgeTwinAddBool(opforgeTwinCall* call, int value);
void opforgeTwinAddText(opforgeTwinCall* call, const char* value);
void opforgeTwinAddInts(opforgeTwinCall* call, const int64_t* values, uint64_t count);
void opforgeTwinAddFloats(opforgeTwinCall* call, const float* values, uint64_t count);
void opforgeTwinAddBools(opforgeTwinCall* call, const int64_t* values, uint64_t count);
void opforgeTwinAddDefault(opforgeTwinCall* call);
/* Returns JSON: {"outputs": [{"dims": [..], "dtype": n}]} or {"error": ".."}. Missing outputs are added from the
   operator definition. */
const char* opforgeTwinInfer(opforgeTwinCall* call);
/* Returns JSON: {"outputs": [{"lowest": [..], "highest": [..]}]} or {"error": ".."}. */
const char* opforgeTwinInferRange(opforgeTwinCall* call);
/* Returns JSON: {"tiling_key", "block_dim", "schedule_mode", "workspaces": [..], "data": "<hex>"} or {"error": ".."}.
 */
const char* opforgeTwinTile(opforgeTwinCall* call);

/* Returns the registered parser plugins as a JSON array: {"om_type", "framework", "keys": [..]}. */
const char* opforgeTwinPlugins(void);
/* Parses a node in the same way as the ONNX parser. attributes: JSON text {"attribute": [..]}. inputs: "" for an
   omitted input. Returns JSON: {"om_type", "inputs": [..], "outputs": [..], "attributes": {name: value}} or {"error":
   ".."}. */
const char* opforgeTwinParseNode(const char* key, const char* name, const char* domain, const char* attributes,
                                 const char* const* inputs, uint64_t inputCount, const char* const* outputs,
                                 uint64_t outputCount);

#ifdef __cplusplus
}
#endif

#endif /* OPFORGE_TWIN_CONTROL_H */
