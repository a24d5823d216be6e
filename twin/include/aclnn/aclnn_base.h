/* What the header of an aclnn function includes. */
#ifndef ACLNN_ACLNN_BASE_H
#define ACLNN_ACLNN_BASE_H

#include "acl/acl_base.h"
#include "aclnn/acl_meta.h"

#endif /* ACLNN_ACLNN_BASE_H */
