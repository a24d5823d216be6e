"""Diagnose an installation: the operators that CANN finds, and faults."""
