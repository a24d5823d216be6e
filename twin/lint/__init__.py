"""Find code in kernels that the host compiler accepts and the device compiler rejects."""
