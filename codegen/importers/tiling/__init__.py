"""Read tiling data and tiling keys of kernels."""
