// The state of acl in this process: initialised or not, the device, contexts, what is left over at the end.
#ifndef OPFORGE_TWIN_HOST_ACL_PROCESS_H
#define OPFORGE_TWIN_HOST_ACL_PROCESS_H

#include <cstdint>
#include <memory>
#include <set>
#include <string>

#include "acl/acl_base.h"
#include "host/acl/stream.h"

namespace opforge::twin::host {

struct Context {
    int32_t device = 0;
    Stream defaultStream;
};

/// A stream of the application, and the context it was created in.
struct StreamHandle {
    explicit StreamHandle(Context* owner) : context(owner) {}

    Context* context;
    Stream stream;
};

/// The context of this thread. Null, with the error set and `status` filled, when acl was not initialised or the thread
/// has none.
std::shared_ptr<Context> RequireContext(const char* function, aclError& status);

/// The stream behind a handle (null is the default stream of the context); null with error and `status` otherwise.
std::shared_ptr<Stream> RequireStream(const char* function, aclrtStream stream, aclError& status);

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_PROCESS_H
