"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""

from opforge.twin.kernel_launch import launch
from opforge.twin.operator_run import run
from opforge.twin.results import AclnnError, Finding, FindingsError, Report, Result

__all__ = ["AclnnError", "Finding", "FindingsError", "Report", "Result", "launch", "run"]
