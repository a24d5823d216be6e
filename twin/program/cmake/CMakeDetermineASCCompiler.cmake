set(CMAKE_ASC_COMPILER "@COMPILER@" CACHE FILEPATH "Compiler of Ascend C for the CPU twin")
set(CMAKE_ASC_COMPILER_ENV_VAR "ASC")
configure_file("@FOLDER@/CMakeASCCompiler.cmake.in" "${CMAKE_PLATFORM_INFO_DIR}/CMakeASCCompiler.cmake" @ONLY)
