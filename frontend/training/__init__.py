"""Rewrite training nodes as standard ONNX operators."""
