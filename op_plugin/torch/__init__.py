"""Register the operators of the specs with PyTorch, as `torch.ops.opforge.<name>`."""

from __future__ import annotations

from opforge.codegen.project import BUILTIN_ROOT, Project, find_project

from .backend import opforge, take_reports
from .graph_rewrite import Rewritten, rewrite
from .onnx_export import export_onnx, onnx_translation_table
from .register import register_project

__all__ = [
    "Rewritten",
    "export_onnx",
    "onnx_translation_table",
    "opforge",
    "register_project",
    "rewrite",
    "take_reports",
]

for _project in (Project(BUILTIN_ROOT), find_project()):
    register_project(_project)
