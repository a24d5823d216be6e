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

#ifdef __cplusplus
}
#endif

#endif /* ACL_ACL_H */
