"""Copy the kernel of an imported operator."""
