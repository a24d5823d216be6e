/* The one header of an application: start and end of the process's use of acl, and the runtime. */
#ifndef ACL_ACL_H
#define ACL_ACL_H

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* configPath: a JSON file, or null; the twin has nothing to configure there. */
aclError aclInit(const char* configPath);
aclError aclFinalize(void);

typedef enum { ACL_DEBUG = 0, ACL_INFO = 1, ACL_WARNING = 2, ACL_ERROR = 3 } aclLogLevel;

/* Logs a text in the form of printf; one of level ACL_ERROR is in aclGetRecentErrMsg too. */
void aclAppLog(aclLogLevel logLevel, const char* func, const char* file, uint32_t line, const char* fmt, ...);

#define ACL_APP_LOG(level, fmt, ...) aclAppLog(level, __FUNCTION__, __FILE__, __LINE__, fmt, ##__VA_ARGS__)

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_H */
