# find_package(ASC): the language ASC, and the commands for kernel libraries.
include("@FOLDER@/opforge-twin.cmake")
list(APPEND CMAKE_MODULE_PATH "@FOLDER@")
set(ASC_FOUND TRUE)
include("@FOLDER@/ascendc_commands.cmake")
