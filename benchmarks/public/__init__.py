"""Public kernels of clones: their tiling data, cases and launches."""
