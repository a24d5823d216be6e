"""Register the operators of the specs with PyTorch, as `torch.ops.opforge.<name>`."""

from __future__ import annotations

from opforge.codegen.project import BUILTIN_ROOT, Project, find_project

from .register import register_project

__all__ = ["register_project"]

for _project in (Project(BUILTIN_ROOT), find_project()):
    register_project(_project)
