"""Compile a kernel of an operator project, for the CMake commands npu_op_kernel_sources and npu_op_kernel_library."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from opforge.codegen.errors import UserError
from opforge.codegen.importers.cpp_text import without_comments
from opforge.twin.build import build_runtime
from opforge.twin.cpp_text import printed

from .compile import Options, compile_kernels
from .op_sources import dtype_header, read_definition, tiling_header


def compile_operator(op_type: str, kernel: Path, output: Path, host: Sequence[Path], folders: Sequence[Path]) -> None:
    """Compile a kernel with the macros of the first dtypes in its definition, and its structures of tiling data.

    Args:
        op_type: Type of the operator.
        kernel: Source of the kernel.
        output: The object file.
        host: Sources of the project, one of which has the definition.
        folders: Folders of headers.

    Raises:
        UserError: No source defines the operator, or the compiler rejects the kernel.
    """
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in host]
    found = [(path, read_definition(text)) for path, text in zip(host, texts, strict=True)]
    named = [(path, definition) for path, definition in found if definition and definition.op_type == op_type]
    if not named:
        raise UserError(f"OP_TYPE: got {op_type!r}, expected an operator of a source of npu_op_code_gen; add OP_ADD")
    home, definition = named[0]
    headers = [path.read_text(encoding="utf-8", errors="replace") for path in sorted(home.parent.glob("*.h"))]
    has_launches = "<<<" in without_comments(kernel.read_text(encoding="utf-8", errors="replace"))
    before = dtype_header(definition) + tiling_header([*headers, texts[host.index(home)]], op_type)
    source = output.with_suffix(".cpp")
    values = {"before": before, "has_launches": has_launches, "is_unit_test": False}
    source.write_text(printed("operator_kernel.cpp.j2", kernel=kernel, **values), encoding="utf-8")
    build_runtime()
    includes = (kernel.parent, *folders)
    compile_kernels([source], output, Options(includes, (), "", ""), is_program=False)


def main() -> int:
    """Read the arguments of the CMake command; return the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("op_type")
    parser.add_argument("kernel", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--host", type=Path, nargs="*", default=[])
    parser.add_argument("--include", type=Path, nargs="*", default=[])
    given = parser.parse_args()
    try:
        compile_operator(given.op_type, given.kernel, given.output, given.host, given.include)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}; expected a file that can be read or written\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
