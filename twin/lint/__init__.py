"""Find code in kernels that the host's compiler accepts and the device's compiler refuses."""
