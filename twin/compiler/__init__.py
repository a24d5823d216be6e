"""Compile the twin's runtime library, operators and kernels, with a cache."""
