"""Index a model: values, types, constants, names."""
