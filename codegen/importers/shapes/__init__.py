"""Read shape inference."""
