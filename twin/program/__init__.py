"""Compile programs with Ascend C kernels for the CPU twin: `opforge cc`."""

from .compiler import CompiledProgram, ProgramError, compile_program

__all__ = ["CompiledProgram", "ProgramError", "compile_program"]
