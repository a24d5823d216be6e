"""The CPU twin: compile operators with g++, run them on numpy arrays, check them like a sanitizer."""
