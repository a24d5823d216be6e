// The operators of this process: the registrations of OpDef, IMPL_OP and REG_OP, grouped by package.
#ifndef OPFORGE_TWIN_HOST_GERT_REGISTRY_H
#define OPFORGE_TWIN_HOST_GERT_REGISTRY_H

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exe_graph/runtime/infer_datatype_context.h"
#include "exe_graph/runtime/infer_shape_context.h"
#include "exe_graph/runtime/tiling_context.h"
#include "opforge_twin/host/definition.h"
#include "register/op_impl_registry.h"

namespace opforge::twin::host {

/// The host functions of an operator type; null if not registered.
struct Implementation {
    gert::OpImplRegisterV2::InferShapeKernelFunc inferShape = nullptr;
    gert::OpImplRegisterV2::InferShapeRangeKernelFunc inferShapeRange = nullptr;
    gert::OpImplRegisterV2::InferDataTypeKernelFunc inferDataType = nullptr;
    gert::OpImplRegisterV2::TilingKernelFunc tiling = nullptr;
    size_t tilingDataCapacity = 2048;
    bool hasDtypeOfFirstInput = false;
    std::set<int32_t> dataDependent;        ///< IR indices: readable in InferShape and in Tiling
    std::set<int32_t> tilingDataDependent;  ///< IR indices: readable in Tiling
};

/// The registrations of the libraries of one installed package.
struct Package {
    std::string vendorDir;  ///< "" for the process itself
    std::map<std::string, Implementation> implementations;
    std::map<std::string, Definition> definitions;
    std::vector<std::string> problems;  ///< libraries that failed to load, with the reason
};

/// The search result for an operator type.
struct Registered {
    std::string opType;
    const Implementation* implementation = nullptr;
    const Definition* definition = nullptr;
    const Package* package = nullptr;
};

class Registry {
public:
    static Registry& Instance();

    /// Registrations of this thread belong to the package that it is loading; otherwise they belong to the process.
    Implementation& ImplementationOf(const std::string& opType);
    void AddDefinition(Definition definition);
    /// Adds a REG_OP prototype. It is used only if no OpDef exists.
    void AddPrototype(Definition definition);

    /// Loads the libraries of a vendor directory and returns the package.
    Package& Load(const std::string& vendorDir);

    /// Returns the first match in this order: entries of ASCEND_CUSTOM_OPP_PATH, the package whose library contains
    /// `caller`, the process itself.
    std::optional<Registered> Find(const std::string& opType, const void* caller);

    /// As Find, but also searches all loaded packages, after those of ASCEND_CUSTOM_OPP_PATH.
    std::optional<Registered> FindAnywhere(const std::string& opType);

    /// Returns the packages in search order.
    std::vector<Package*> SearchOrder(const void* caller);

private:
    std::optional<Registered> FindIn(const std::vector<Package*>& order, const std::string& opType);

    // Static objects of a library register while the dynamic loader holds its own lock. Therefore `lock_` must be free
    // during loading, and no thread may wait for the loader while it holds `lock_`.
    std::mutex loadLock_;
    std::mutex lock_;
    Package process_;
    std::map<std::string, Package> packages_;
    std::map<std::string, Definition> prototypes_;
};

}  // namespace opforge::twin::host

#endif  // OPFORGE_TWIN_HOST_GERT_REGISTRY_H
