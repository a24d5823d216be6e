# Initial cache for `cmake -C`: projects of Ascend C samples build for the CPU twin of opforge.
set(ASC_DIR "@FOLDER@" CACHE PATH "CMake package of the CPU twin" FORCE)
set(ASCEND_CANN_PACKAGE_PATH "@FOLDER@/toolkit" CACHE PATH "Folder in place of a toolkit" FORCE)
set(ASCEND_HOME_PATH "@FOLDER@/toolkit" CACHE PATH "Folder in place of a toolkit" FORCE)
set(CMAKE_MODULE_PATH "@FOLDER@" CACHE STRING "Modules of the language ASC")
set(ENV{ASCEND_HOME_PATH} "@FOLDER@/toolkit")
