"""Compile and run the kernels of a clone, and report the results."""
