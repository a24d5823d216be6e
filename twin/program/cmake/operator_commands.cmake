# Commands of operator projects: the twin compiles host code and kernels, and writes no package.
set(ASCEND_AUTOGEN_PATH "${CMAKE_BINARY_DIR}/autogen")

function(npu_op_package name)
    message(STATUS "npu_op_package(${name}): the CPU twin compiles host code and kernels, and writes no package")
    add_custom_target(${name} ALL)
endfunction()

function(npu_op_package_add name)
    cmake_parse_arguments(given "" "" "LIBRARY" ${ARGN})
    add_dependencies(${name} ${given_LIBRARY})
endfunction()

# There are no generated sources. The commands of kernels read the definitions.
function(npu_op_code_gen)
    cmake_parse_arguments(given "" "PACKAGE;OUT_DIR" "SRC;OPTIONS" ${ARGN})
    foreach(source ${given_SRC})
        get_filename_component(path "${source}" ABSOLUTE)
        set_property(GLOBAL APPEND PROPERTY OPFORGE_OP_SOURCES "${path}")
    endforeach()
endfunction()

function(npu_op_library name kind)
    if("${ARGN}" STREQUAL "")
        add_library(${name} INTERFACE)
    else()
        add_library(${name} SHARED ${ARGN})
        target_link_libraries(${name} PRIVATE opforge_twin)
    endif()
endfunction()

function(npu_op_device_tiling_library name kind)
    npu_op_library(${name} TILING ${ARGN})
endfunction()

# Kernels may come before or after the library.
function(npu_op_kernel_library name)
    cmake_parse_arguments(given "" "SRC_BASE;TILING_LIBRARY" "" ${ARGN})
    add_custom_target(${name} ALL)
    set_property(GLOBAL PROPERTY OPFORGE_SRC_BASE_${name} "${given_SRC_BASE}")
    get_property(kernels GLOBAL PROPERTY OPFORGE_KERNELS_${name})
    foreach(kernel ${kernels})
        string(REPLACE "|" ";" kernel "${kernel}")
        opforge_op_kernel(${name} ${kernel})
    endforeach()
endfunction()

function(npu_op_kernel_sources name)
    cmake_parse_arguments(given "" "OP_TYPE;KERNEL_DIR;KERNEL_FILE" "COMPUTE_UNIT" ${ARGN})
    if(NOT given_KERNEL_DIR)
        set(given_KERNEL_DIR ".")
    endif()
    if(TARGET ${name})
        opforge_op_kernel(${name} ${given_OP_TYPE} ${given_KERNEL_DIR} ${given_KERNEL_FILE})
    else()
        set_property(GLOBAL APPEND PROPERTY OPFORGE_KERNELS_${name}
            "${given_OP_TYPE}|${given_KERNEL_DIR}|${given_KERNEL_FILE}")
    endif()
endfunction()

function(opforge_op_kernel name op_type folder file)
    get_property(base GLOBAL PROPERTY OPFORGE_SRC_BASE_${name})
    get_property(host GLOBAL PROPERTY OPFORGE_OP_SOURCES)
    set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.${op_type}.o")
    add_custom_command(
        OUTPUT "${object}"
        COMMAND @PYTHON@ -m opforge.twin.coverage.op_project ${op_type} "${base}/${folder}/${file}" "${object}"
            --include "${base}" --host ${host}
        DEPENDS "${base}/${folder}/${file}" ${host}
        COMMENT "Compiling the kernel of ${op_type} for the CPU twin"
        VERBATIM)
    add_custom_target(${name}_${op_type} DEPENDS "${object}")
    add_dependencies(${name} ${name}_${op_type})
endfunction()
