# Files of a CANN 8.x toolkit in ASCEND_CANN_PACKAGE_PATH that host libraries need; `host_settings` is the target of these
# libraries.
target_include_directories(host_settings SYSTEM INTERFACE
    "${ASCEND_CANN_PACKAGE_PATH}/include"
    "${ASCEND_CANN_PACKAGE_PATH}/include/aclnn"
    "${ASCEND_CANN_PACKAGE_PATH}/include/experiment/platform")
target_link_directories(host_settings INTERFACE "${ASCEND_CANN_PACKAGE_PATH}/lib64")
target_compile_definitions(host_settings INTERFACE _GLIBCXX_USE_CXX11_ABI=0)
# Without the whole archive, the registries of GE do not find the operators of a library.
set(opforge_registry -Wl,--whole-archive rt2_registry -Wl,--no-whole-archive exe_graph register)
set(opforge_proto_libraries ${opforge_registry})
set(opforge_master_libraries ${opforge_registry} tiling_api platform)
set(opforge_opapi_libraries opapi nnopbase ascendcl)
# Parsers resolve all symbols of a plugin when they open it. This option reports missing symbols at link time.
set(opforge_plugin_libraries graph register -Wl,--no-undefined)
set(opforge_plugin_definitions google=ascend_private)
