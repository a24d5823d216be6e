/* Common includes for the headers of aclnn functions. */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

#endif /* ACLNN_ACLNN_BASE_H */
