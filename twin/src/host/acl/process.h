// The acl state of this process: initialization, device, contexts, and a leak report at the end.
#ifndef OPFORGE_TWIN_HOST_ACL_PROCESS_H
#define OPFORGE_TWIN_HOST_ACL_PROCESS_H

#include <cstddef>
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

/// A stream of the application and the context that created it.
struct StreamHandle {
    explicit StreamHandle(Context* owner) : context(owner) {}

    Context* context;
    Stream stream;
};

/// Returns the context of this thread. If acl is not initialized or the thread has no context, returns null, sets the
/// error and fills `status`.
std::shared_ptr<Context> RequireContext(const char* function, aclError& status);

/// Returns the stream of a handle; a null handle means the default stream of the context. On failure, returns null,
/// sets the error and fills `status`.
std::shared_ptr<Stream> RequireStream(const char* function, aclrtStream stream, aclError& status);

/// Waits for the tasks of all streams.
void FinishStreams();

/// Whether no stream has a task that waits or runs.
bool AreStreamsIdle();

/// The number of threads of all streams.
size_t StreamThreads();

/// In a child made by fork(), which has no threads of streams: as before aclInit.
void AbandonStreams();

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_ACL_PROCESS_H
