"""Compile the twin's runtime library, operators and kernels, with a cache."""

from .npu_model import TWIN, known_socs, npu_model, soc_properties
from .operators import Operators, application_flags, build_project
from .runtime_library import INCLUDE, build_runtime

__all__ = [
    "INCLUDE",
    "TWIN",
    "Operators",
    "application_flags",
    "build_project",
    "build_runtime",
    "known_socs",
    "npu_model",
    "soc_properties",
]
