"""Render specs as texts, without access to disk, clock or environment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from opforge.codegen.data.dtypes import DTYPES, STORAGE_FORMATS
from opforge.codegen.data.products import DEFAULT_SOC, PRODUCTS, SOCS
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.views.line_wrap import PAGE_WIDTH, fit
from opforge.codegen.views.op_view import FunctionView, OpView
from opforge.codegen.views.ort_view import ort_operators
from opforge.codegen.views.page_view import PageView
from opforge.codegen.views.skeleton_view import SkeletonView

from . import escape
from .template_loader import TemplateLoader

TABLES_HEADER = "op_host/opforge_tables.h"


class _CodeEnvironment(Environment):
    """Marks the text of macros and blocks as code, because every part of it was already printed."""

    @staticmethod
    def concat(parts: Iterable[str]) -> escape.Code:
        """Return the text of a macro or block."""
        return escape.Code("".join(parts))


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = _CodeEnvironment(
        loader=TemplateLoader([Path(__file__).with_name("templates")], __file__, escape.__file__),
        undefined=StrictUndefined,
        finalize=escape.printable,
        variable_start_string="${",  # the default braces are frequent in C++
        variable_end_string="}",
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # no HTML; `finalize` rejects every text without a filter
    )
    of_jinja = {name: environment.filters[name] for name in ("abs", "indent", "length", "map")}
    own = (escape.commas, escape.comment, escape.cpp_string, escape.markdown, escape.markdown_code, page_width)
    environment.filters = of_jinja | {function.__name__: function for function in own}
    return environment


def render(spec: OpSpec, *, has_plan: bool = True, has_kernel: bool = True) -> list[tuple[str, str]]:
    """Return the files of one operator as (path below the output folder, text), sorted by path.

    For an operator that is declared only, these are OpDef and REG_OP.

    Args:
        spec: The operator.
        has_plan: Whether `op_host/<op>_tiling.h` exists; without it, no tiling is rendered.
        has_kernel: Whether `op_kernel/<op>.h` exists; without it, no kernel entry is rendered.
    """
    op = OpView(spec)
    files = {
        f"op_proto/{op.name}_proto.h": _text("proto.h.j2", op),
        f"op_proto/{op.name}_proto.cpp": _text("proto.cpp.j2", op),
    }
    if spec.has_op_def:
        files[f"op_host/{op.name}_def.cpp"] = _text("def.cpp.j2", op)
    if spec.declared_only:
        return sorted(files.items())
    files |= {
        f"op_host/{op.source_name}_problem.h": _text("problem.h.j2", op),
        f"op_host/{op.name}_check.h": _text("check.h.j2", op),
        f"op_host/{op.name}_infershape.cpp": _text("infershape.cpp.j2", op),
        f"op_kernel/{op.source_name}_tiling_data.h": _text("tiling_data.h.j2", op),
    }
    if spec.outputs:
        files[f"op_plugin/{op.name}_onnx_plugin.cpp"] = _text("onnx_plugin.cpp.j2", op)
    if has_plan:
        files[f"op_host/{op.name}_tiling.cpp"] = _text("tiling.cpp.j2", op)
    if has_plan and has_kernel:
        files[f"op_kernel/{op.name}.cpp"] = _text("kernel.cpp.j2", op)
    if op.functions:
        files[f"op_api/{op.name}_l0.h"] = _text("l0.h.j2", op)
        files[f"op_api/{op.name}_l0.cpp"] = _text("l0.cpp.j2", op)
        page = PageView(op, has_kernel=has_plan and has_kernel)
        program = _text("example.cpp.j2", op, page=page) if page.example else ""
        if page.example:
            files[f"docs/aclnn{op.op_type}.cpp"] = f"{_banner(op, '// {}')}\n{program}"
        code = escape.Code(program.strip())
        files[f"docs/aclnn{op.op_type}.md"] = _text("aclnn.md.j2", op, mark="<!-- {} -->", page=page, program=code)
    if op.torch_targets:
        files[f"op_plugin/{op.name}_torchair.py"] = _text("torchair.py.j2", op, mark="{}")
    for function in op.functions:
        files[f"op_api/{function.stem}.h"] = _text("aclnn.h.j2", op, function=function)
        files[f"op_api/{function.stem}.cpp"] = _text("aclnn.cpp.j2", op, function=function)
    return sorted(files.items())


def kernel_skeleton(spec: OpSpec) -> str:
    """Return a kernel skeleton: the exact `Init`, the fields of the tiling data, an empty `Process`."""
    op = OpView(spec)
    guard = escape.Code(op.source_name.upper())
    text = printed("kernel_skeleton.h.j2", op=op, skeleton=SkeletonView(op), guard=guard)
    return fit("\n".join(line.rstrip() for line in text.split("\n")))


def render_project(specs: Sequence[OpSpec], files: Sequence[str]) -> list[tuple[str, str]]:
    """Return the files that all operators share, as (path below the output folder, text), sorted by path.

    `op_host/opforge_tables.h` has the dtypes, formats, products and the default chip for C++. `sources.cmake` lists
    the generated C++ sources by folder; `op_api/exports.map` is the linker's version script, which exports only the
    documented functions of libcust_opapi.so.

    Args:
        specs: All operators of the project.
        files: Paths of all their files.
    """
    functions = sorted(function.function for spec in specs for function in spec.aclnn)
    return [
        ("op_api/exports.map", printed("exports.map.j2", functions=functions)),
        (TABLES_HEADER, tables_header()),
        ("sources.cmake", _source_lists(files)),
    ]


def tables_header() -> str:
    """Return the header that all generated host code includes, `TABLES_HEADER`."""

    def coded(rows: Iterable[object], *names: str) -> list[dict[str, escape.Code]]:
        return [{name: escape.Code(str(getattr(row, name))) for name in names} for row in rows]

    return printed(
        "tables.h.j2",
        dtypes=coded(DTYPES.values(), "name", "number", "bytes", "plan", "onnx"),
        formats=coded(STORAGE_FORMATS, "name", "number", "plan"),
        products=coded(PRODUCTS.values(), "version", "enumerator"),
        coupled=[escape.Code(p.tiling_version or p.version) for p in PRODUCTS.values() if p.is_coupled],
        soc=SOCS[DEFAULT_SOC],
    )


def printed(template: str, **values: object) -> str:
    """Return the text of a template that is not about a single operator."""
    return _environment().get_template(template).render(**values)


def ort_library(specs: Sequence[OpSpec]) -> str:
    """Return the source of the library of custom operators for onnxruntime."""
    return fit(printed("ort_library.cpp.j2", operators=ort_operators(specs)))


def page_width(code: str) -> escape.Code:
    """Return C++ of a template, with lines wrapped to the page width."""
    return escape.Code(fit(str(code), PAGE_WIDTH))


def _source_lists(files: Sequence[str]) -> str:
    folders = sorted({path.split("/")[0] for path in files if path.endswith(".cpp")} - {"docs"})
    lists = [
        (folder, [p for p in sorted(files) if p.startswith(f"{folder}/") and p.endswith(".cpp")]) for folder in folders
    ]
    safe = [(folder.upper(), [escape.Code(path) for path in paths]) for folder, paths in lists]
    return printed(
        "sources.cmake.j2",
        lists=safe,
        list_dir=escape.Code("${CMAKE_CURRENT_LIST_DIR}"),
        banner=escape.Code("# Generated by opforge; do not edit."),
    )


def _banner(op: OpView, mark: str) -> escape.Code:
    return escape.Code(mark.format(f"Generated by opforge from op_proto/{op.name}.yaml; do not edit."))


def _text(template: str, op: OpView, mark: str = "// {}", **views: FunctionView | PageView | escape.Code) -> str:
    text = _environment().get_template(template).render(op=op, banner=_banner(op, mark), **views)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return text if template.endswith((".md.j2", ".py.j2")) else fit(text)
