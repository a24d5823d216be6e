"""Estimate the time of an operator by phase, pipe and source line."""

from .command import profile_command, run_traced, summary, trace_events
from .inputs import parse_attrs, parse_shapes

__all__ = ["parse_attrs", "parse_shapes", "profile_command", "run_traced", "summary", "trace_events"]
