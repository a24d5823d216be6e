# The sources in a package with vendor folder OPFORGE_PACKAGE, by folder, and the target `host_settings` with their include
# folders.
set(opforge_kernels "${OPFORGE_PACKAGE}/op_impl/ai_core/tbe/${OPFORGE_VENDOR}_impl/dynamic")
set(opforge_exports "${OPFORGE_PACKAGE}/src/op_api/exports.map")
foreach(folder op_proto op_host op_api op_plugin)
    string(TOUPPER "${folder}" name)
    file(GLOB OPFORGE_${name}_SOURCES CONFIGURE_DEPENDS "${OPFORGE_PACKAGE}/src/${folder}/*.cpp")
endforeach()

add_library(host_settings INTERFACE)
target_include_directories(host_settings INTERFACE
    "${OPFORGE_PACKAGE}/src/op_host" "${OPFORGE_PACKAGE}/src/op_api" "${OPFORGE_PACKAGE}/src/op_plugin"
    "${OPFORGE_PACKAGE}/op_proto/inc" "${OPFORGE_PACKAGE}/op_api/include" "${opforge_kernels}")
include("${CMAKE_CURRENT_LIST_DIR}/parts.cmake")
