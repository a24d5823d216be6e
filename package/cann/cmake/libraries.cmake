# Host libraries of a package. Input: the sources in parts.cmake, the target `host_settings` and opforge_*_libraries.
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(cust_opsproto_rt2.0 SHARED ${opforge_proto_sources})
target_compile_definitions(cust_opsproto_rt2.0 PRIVATE OP_PROTO_LIB)
target_link_libraries(cust_opsproto_rt2.0 PRIVATE host_settings ${opforge_proto_libraries})

add_library(cust_opmaster_rt2.0 SHARED ${opforge_master_sources})
target_compile_definitions(cust_opmaster_rt2.0 PRIVATE OP_TILING_LIB)
target_link_libraries(cust_opmaster_rt2.0 PRIVATE host_settings ${opforge_master_libraries})

add_library(cust_opapi SHARED ${OPFORGE_OP_API_SOURCES})
target_link_libraries(cust_opapi PRIVATE host_settings ${opforge_opapi_libraries})
target_link_options(cust_opapi PRIVATE "LINKER:--version-script=${opforge_exports}")

add_library(cust_onnx_parsers SHARED ${OPFORGE_OP_PLUGIN_SOURCES})
# Its sources define local functions of the same names.
set_target_properties(cust_onnx_parsers PROPERTIES UNITY_BUILD OFF)
target_compile_definitions(cust_onnx_parsers PRIVATE ${opforge_plugin_definitions})
target_link_libraries(cust_onnx_parsers PRIVATE host_settings ${opforge_plugin_libraries})
