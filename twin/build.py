"""Build operators and applications for the twin: the interface of `compiler` for other packages."""

from opforge.twin.compiler.npu_model import TWIN, npu_model
from opforge.twin.compiler.operators import Operators, application_flags, build_project
from opforge.twin.compiler.ort_library import build_ort_library
from opforge.twin.compiler.runtime_library import INCLUDE, build_runtime, header_folders, include_flags, runtime_dir

__all__ = [
    "INCLUDE",
    "TWIN",
    "Operators",
    "application_flags",
    "build_ort_library",
    "build_project",
    "build_runtime",
    "header_folders",
    "include_flags",
    "npu_model",
    "runtime_dir",
]
