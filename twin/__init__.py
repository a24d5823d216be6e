"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""

from opforge.twin.api import AclnnError, Finding, FindingsError, Report, Result, launch, run

__all__ = ["AclnnError", "Finding", "FindingsError", "Report", "Result", "launch", "run"]
