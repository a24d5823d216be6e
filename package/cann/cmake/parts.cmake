# Maps the generated sources to the libraries.
set(opforge_proto_sources ${OPFORGE_OP_PROTO_SOURCES} ${OPFORGE_OP_HOST_SOURCES})
list(FILTER opforge_proto_sources INCLUDE REGEX "(_proto|_infershape)\\.cpp$")
set(opforge_master_sources ${OPFORGE_OP_HOST_SOURCES})
list(FILTER opforge_master_sources EXCLUDE REGEX "_infershape\\.cpp$")
