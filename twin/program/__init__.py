"""Compile programs with Ascend C kernels for the CPU twin: `opforge cc`."""

from .cmake_files import write_cmake_files
from .compiler import CompiledProgram, ProgramError, compile_program

__all__ = ["CompiledProgram", "ProgramError", "compile_program", "write_cmake_files"]
