"""Read and write models and arrays, within limits."""
