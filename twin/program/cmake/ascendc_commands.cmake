# Libraries that samples link, and ascendc_library with its companions.
include_guard(GLOBAL)

# Samples call find_package(ASC) before project(), which sets this property.
set_property(GLOBAL PROPERTY TARGET_SUPPORTS_SHARED_LIBS TRUE)
add_library(opforge_twin SHARED IMPORTED GLOBAL)
set_target_properties(opforge_twin PROPERTIES IMPORTED_LOCATION "@LIBRARY@")
target_include_directories(opforge_twin SYSTEM INTERFACE "@INCLUDE@")
foreach(name ascendcl acl_rt acl_rtc nnopbase opapi tiling_api register platform runtime ascendc_runtime graph_base unified_dlog
        host_intf_pub)
    if(NOT TARGET ${name})
        add_library(${name} INTERFACE IMPORTED GLOBAL)
        target_link_libraries(${name} INTERFACE opforge_twin)
    endif()
endforeach()
include_directories(SYSTEM "@INCLUDE@")
link_directories("@LIBRARY_FOLDER@")

if(POLICY CMP0116)
    cmake_policy(SET CMP0116 NEW)
endif()

# Compiles each kernel source by a command; the library has the objects and the folder of the headers
# aclrtlaunch_<kernel>.h.
function(ascendc_library target kind)
    set(objects)
    set(headers "${CMAKE_CURRENT_BINARY_DIR}/include/${target}")
    file(MAKE_DIRECTORY "${headers}")
    set(settings "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},OPFORGE_DEFINITIONS>>")
    set(options "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},OPFORGE_OPTIONS>>")
    set(folders "$<TARGET_GENEX_EVAL:${target},$<TARGET_PROPERTY:${target},OPFORGE_INCLUDES>>")
    foreach(source ${ARGN})
        get_filename_component(path "${source}" ABSOLUTE)
        string(MAKE_C_IDENTIFIER "${source}" name)
        set(object "${CMAKE_CURRENT_BINARY_DIR}/${target}.${name}.o")
        set(depfile)
        if(CMAKE_VERSION VERSION_GREATER_EQUAL 3.20)
            set(depfile DEPFILE "${object}.d")
        endif()
        add_custom_command(
            OUTPUT "${object}"
            COMMAND @COMMAND@ -c "${path}" -o "${object}" --headers "${headers}" "-I${CMAKE_CURRENT_SOURCE_DIR}"
                "$<$<BOOL:${settings}>:-D$<JOIN:${settings},;-D>>"
                "$<$<BOOL:${folders}>:-I$<JOIN:${folders},;-I>>" -- "${options}" -MD "-MT${object}" "-MF${object}.d"
            DEPENDS "${path}"
            ${depfile}
            COMMENT "Compiling ${source} for the CPU twin"
            COMMAND_EXPAND_LISTS VERBATIM)
        list(APPEND objects "${object}")
    endforeach()
    set_source_files_properties(${objects} PROPERTIES GENERATED TRUE EXTERNAL_OBJECT TRUE)
    add_custom_target(${target}_objects DEPENDS ${objects})
    add_library(${target} ${kind} ${objects})
    add_dependencies(${target} ${target}_objects)
    set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
    target_include_directories(${target} SYSTEM PUBLIC "${headers}" "@INCLUDE@")
    target_link_libraries(${target} PUBLIC opforge_twin)
endfunction()

# Makes the file <target>.o for aclrtBinaryLoadFromFile.
function(ascendc_fatbin_library target)
    ascendc_library(${target} MODULE ${ARGN})
    set_property(TARGET ${target} APPEND PROPERTY OPFORGE_OPTIONS -shared)
    set_target_properties(${target} PROPERTIES PREFIX "" SUFFIX ".o")
    install(TARGETS ${target} LIBRARY DESTINATION "fatbin/${target}")
endfunction()

# Drops the words PRIVATE, PUBLIC and INTERFACE: kernels are compiled with all definitions and folders.
function(ascendc_compile_definitions target)
    list(REMOVE_ITEM ARGN PRIVATE PUBLIC INTERFACE)
    list(TRANSFORM ARGN REPLACE "^-D" "")
    set_property(TARGET ${target} APPEND PROPERTY OPFORGE_DEFINITIONS ${ARGN})
endfunction()

function(ascendc_include_directories target)
    list(REMOVE_ITEM ARGN PRIVATE PUBLIC INTERFACE)
    set(folders)
    foreach(folder ${ARGN})
        get_filename_component(path "${folder}" ABSOLUTE)
        list(APPEND folders "${path}")
    endforeach()
    set_property(TARGET ${target} APPEND PROPERTY OPFORGE_INCLUDES ${folders})
endfunction()

# Drops the options that only the device compiler has.
function(ascendc_compile_options target)
    list(FILTER ARGN INCLUDE REGEX "^-(D|U|I|std=|-cce-)")
    set_property(TARGET ${target} APPEND PROPERTY OPFORGE_OPTIONS ${ARGN})
endfunction()

include("@FOLDER@/operator_commands.cmake")
