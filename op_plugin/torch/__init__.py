"""Register the operators of the specs with PyTorch, as `torch.ops.opforge.<name>`."""

from __future__ import annotations

import importlib.util

from opforge.codegen.errors import not_installed
from opforge.codegen.project import BUILTIN_ROOT, Project, find_project

if importlib.util.find_spec("torch") is None:
    error = not_installed("opforge.torch", "PyTorch", "the operators", "pip install 'opforge[torch]'")
    raise ModuleNotFoundError(str(error), name="torch")

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
