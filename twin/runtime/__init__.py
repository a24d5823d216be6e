"""Run operators and kernels on numpy arrays."""
