"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""

from opforge.twin.runtime.launch import launch
from opforge.twin.runtime.operator_run import run
from opforge.twin.runtime.results import AclnnError, Finding, FindingsError, Report, Result

__all__ = ["AclnnError", "Finding", "FindingsError", "Report", "Result", "launch", "run"]
