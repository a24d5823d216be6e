/* Compilation of kernels at run time. The twin calls `opforge cc`, which must be in PATH. Usable from C and C++. */
#ifndef ACL_ACL_RT_COMPILE_H
#define ACL_ACL_RT_COMPILE_H

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef void* aclrtcProg;

aclError aclrtcCreateProg(aclrtcProg* prog, const char* src, const char* name, int numHeaders, const char** headers,
                          const char** includeNames);
aclError aclrtcDestroyProg(aclrtcProg* prog);
aclError aclrtcAddNameExpr(aclrtcProg prog, const char* nameExpression);
aclError aclrtcGetLoweredName(aclrtcProg prog, const char* nameExpression, const char** loweredName);
aclError aclrtcCompileProg(aclrtcProg prog, int numOptions, const char** options);
aclError aclrtcGetBinDataSize(aclrtcProg prog, size_t* binDataSizeRet);
aclError aclrtcGetBinData(aclrtcProg prog, char* binData);
/* The size includes the zero at the end. */
aclError aclrtcGetCompileLogSize(aclrtcProg prog, size_t* logSizeRet);
aclError aclrtcGetCompileLog(aclrtcProg prog, char* log);

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_RT_COMPILE_H */
