"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""

from .kernel_launch import launch
from .operator_run import run
from .results import AclnnError, Finding, FindingsError, Report, Result

__all__ = ["AclnnError", "Finding", "FindingsError", "Report", "Result", "launch", "run"]
