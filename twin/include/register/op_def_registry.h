// OP_ADD: registers an OpDef. As on CANN, inference functions are used from a library built with OP_PROTO_LIB and the
// tiling function from a library built with OP_TILING_LIB. The twin reads inputs and outputs from any library.
#ifndef REGISTER_OP_DEF_REGISTRY_H
#define REGISTER_OP_DEF_REGISTRY_H

#include "register/op_def.h"

namespace opforge::twin::host {
enum class LibraryKind { kOther, kProto, kTiling };

#if defined(OP_PROTO_LIB)
constexpr LibraryKind kThisLibrary = LibraryKind::kProto;
#elif defined(OP_TILING_LIB)
constexpr LibraryKind kThisLibrary = LibraryKind::kTiling;
#else
constexpr LibraryKind kThisLibrary = LibraryKind::kOther;
#endif

class OpDefRegistration {
public:
    OpDefRegistration(const char* opType, ops::OpDef&& definition, LibraryKind kind);
};
}  // namespace opforge::twin::host

#define OP_ADD(opType, ...)                                                                    \
    [[maybe_unused]] static const opforge::twin::host::OpDefRegistration opforgeOpDef##opType( \
        #opType, opType(#opType), opforge::twin::host::kThisLibrary)

#endif  // REGISTER_OP_DEF_REGISTRY_H
