"""List the types and forms of nodes that CANN's ONNX parsers support."""
