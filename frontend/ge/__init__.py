"""Read and write graphs in GE's format."""
