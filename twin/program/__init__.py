"""Compile programs that launch Ascend C kernels."""

from .compile import CompiledProgram, ProgramError, compile_program

__all__ = ["CompiledProgram", "ProgramError", "compile_program"]
