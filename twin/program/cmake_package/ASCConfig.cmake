# find_package(ASC) with opforge in PATH: CMake searches <prefix>/share/cmake for each <prefix>/bin in PATH.
# It also finds the package before project(), where CMake has not read a toolchain file.
foreach(file "${CMAKE_TOOLCHAIN_FILE}" "$ENV{CMAKE_TOOLCHAIN_FILE}")
    if(NOT opforge_file AND file MATCHES "/opforge-twin\\.cmake$" AND EXISTS "${file}")
        set(opforge_file "${file}")
    endif()
endforeach()
if(NOT opforge_file)
    execute_process(
        COMMAND "${CMAKE_CURRENT_LIST_DIR}/../../../bin/opforge" cc --cmake
        OUTPUT_VARIABLE opforge_file
        ERROR_VARIABLE opforge_error
        RESULT_VARIABLE opforge_result
        OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT opforge_result STREQUAL "0")
        set(ASC_FOUND FALSE)
        set(ASC_NOT_FOUND_MESSAGE "opforge cc --cmake: ${opforge_result}: ${opforge_error}")
        return()
    endif()
endif()
get_filename_component(folder "${opforge_file}" DIRECTORY)
unset(opforge_file)
include("${folder}/ASCConfig.cmake")
