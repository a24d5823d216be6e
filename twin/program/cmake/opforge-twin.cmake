# Toolchain file, also for `cmake -C`: projects of Ascend C samples build for the CPU twin of opforge.
if(NOT EXISTS "@LIBRARY@")
    message(FATAL_ERROR "@LIBRARY@: got no file, expected the library of the CPU twin; run: opforge cc --cmake")
endif()
# CMake reads a toolchain file in project(); an earlier find_package(ASC) can have found a toolkit.
if(ASC_FOUND AND NOT ASC_DIR STREQUAL "@FOLDER@")
    message(FATAL_ERROR "ASC_DIR: got ${ASC_DIR}, expected the CPU twin; use an empty build folder and -DASC_DIR=@FOLDER@")
endif()
set(ASC_DIR "@FOLDER@" CACHE PATH "CMake package of the CPU twin" FORCE)
set(tikicpulib_DIR "@FOLDER@" CACHE PATH "CMake package of the CPU debug mode" FORCE)
set(ASCEND_CANN_PACKAGE_PATH "@FOLDER@/toolkit" CACHE PATH "Folder in place of a toolkit" FORCE)
set(ASCEND_HOME_PATH "@FOLDER@/toolkit" CACHE PATH "Folder in place of a toolkit" FORCE)
set(CMAKE_MODULE_PATH "@FOLDER@" CACHE STRING "Modules of the language ASC")
set(ENV{ASCEND_HOME_PATH} "@FOLDER@/toolkit")
