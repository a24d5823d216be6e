"""Create small models from text, with their constants."""

import numpy as np
import onnx
from onnx import numpy_helper


def form_model(text, constants, domains, opset):
    """Return the model of a graph; the used entries of `constants` are its initializers."""
    imports = ", ".join([f'"" : {opset}', *(f'"{domain}" : 1' for domain in domains)])
    model = onnx.parser.parse_model(f"<ir_version: 8, opset_import: [{imports}]> g {text}")
    read = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(
        numpy_helper.from_array(np.array(value), name) for name, value in constants.items() if name in read
    )
    return model
