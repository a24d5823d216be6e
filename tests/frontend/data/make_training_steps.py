"""Create the training steps in this folder: graphs of onnxruntime-training, and its results.

It needs a separate environment with onnxruntime-training, torch and this project: `python make_training_steps.py`.
"""

import io
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper

from opforge.frontend.training.training_step import training_step

HERE = Path(__file__).parent
STEPS = ("bert", "conv")


def feed(model, *, is_reset):
    """Return seeded arrays for the inputs of a training step; second moments and variances are positive.

    With `is_reset`, new sums of gradients start.
    """
    generator = np.random.default_rng(11)
    arrays = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        # Small enough that float32 sums agree in any order.
        numbers = generator.normal(size=shape) * 0.3
        if value.name in ("tokens", "labels"):
            numbers = generator.integers(0, 3 if value.name == "labels" else 20, shape)
        elif value.name == "ids":
            numbers = np.arange(shape[-1]).reshape(shape)
        elif value.name == "mask":
            numbers = numbers > -0.3
        elif value.name == "step":
            numbers = np.full(shape, 3)
        elif value.name == "learning_rate":
            numbers = np.full(shape, 0.01)
        elif value.name == "lazy_reset_grad":
            numbers = np.full(shape, is_reset)
        elif value.name.endswith((".running_var", ".second")):
            numbers = np.abs(numbers) + 0.1
        arrays[value.name] = np.asarray(numbers).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return arrays


def sample(array):
    """Return the stored part of an array: all elements of a small one, else every 13th element."""
    return array if array.size <= 64 else array.reshape(-1)[::13]


def stored(name, *, is_reset):
    """Return the stored numbers of a step."""
    with np.load(HERE / f"{name}_step.npz") as both:
        return {key: both[key][int(is_reset)] for key in both.files}


def _networks():
    import torch
    from torch import nn
    from torch.nn import functional

    class Attention(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

        def forward(self, x, mask):
            batch, time, width = x.shape
            query, key, value = (
                layer(x).view(batch, time, self.heads, width // self.heads).transpose(1, 2)
                for layer in (self.query, self.key, self.value)
            )
            weights = torch.softmax(query @ key.transpose(-1, -2) / (width // self.heads) ** 0.5 + mask, -1)
            return self.out((weights @ value).transpose(1, 2).reshape(batch, time, width))

    class Layer(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.attention, self.up, self.down = (
                Attention(width, heads),
                nn.Linear(width, width),
                nn.Linear(width, width),
            )
            self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

        def forward(self, x, mask):
            x = self.first(x + self.attention(x, mask))
            return self.second(x + self.down(functional.gelu(self.up(x))))

    class Bert(nn.Module):
        def __init__(self, width=32):
            super().__init__()
            self.word, self.place, self.norm = nn.Embedding(20, width), nn.Embedding(6, width), nn.LayerNorm(width)
            self.layers = nn.ModuleList(Layer(width, 4) for _ in range(2))
            self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 3)
            self.register_buffer("ids", torch.arange(6)[None])

        def forward(self, tokens, mask):
            x = self.norm(self.word(tokens) + self.place(self.ids))
            for layer in self.layers:
                x = layer(x, ((1.0 - mask) * -10000.0)[:, None, None, :])
            return self.head(torch.tanh(self.pool(x[:, 0])))

    class Conv(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.first_norm = nn.Conv2d(2, 6, 3, padding=1), nn.BatchNorm2d(6)
            self.second, self.second_norm = nn.Conv2d(6, 8, 3, stride=2, padding=1, bias=False), nn.BatchNorm2d(8)
            self.third, self.head = nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Linear(8, 3)

        def forward(self, image):
            x = functional.max_pool2d(torch.relu(self.first_norm(self.first(image))), 2)
            x = torch.sigmoid(self.third(torch.relu(self.second_norm(self.second(x)))))
            return self.head(functional.adaptive_avg_pool2d(x, 1).flatten(1))

    tokens, mask, image = torch.randint(0, 20, (3, 6)), torch.ones(3, 6), torch.randn(4, 2, 8, 8)
    return {"bert": (Bert(), {"tokens": tokens, "mask": mask}), "conv": (Conv(), {"image": image})}


def _artifacts(network, inputs):
    """Return the training graph and the graph of the optimizer."""
    import torch
    from onnxruntime.training import artifacts

    file = io.BytesIO()
    # Newer opsets have a LayerNormalization of one output, whose gradient onnxruntime cannot build.
    torch.onnx.export(
        network.train(),
        tuple(inputs.values()),
        file,
        input_names=list(inputs),
        output_names=["logits"],
        opset_version=15,
        training=torch.onnx.TrainingMode.TRAINING,
        do_constant_folding=False,
        dynamo=False,
    )
    forward = onnx.load_from_string(file.getvalue())
    stored = {tensor.name for tensor in forward.graph.initializer}
    with TemporaryDirectory() as folder:
        artifacts.generate_artifacts(
            forward,
            requires_grad=[name for name, _ in network.named_parameters()],
            frozen_params=[name for name, _ in network.named_buffers() if name in stored],
            loss=artifacts.LossType.CrossEntropyLoss,
            optimizer=artifacts.OptimType.AdamW,
            artifact_directory=folder,
        )
        return [onnx.load(Path(folder) / f"{kind}_model.onnx") for kind in ("training", "optimizer")]


def numbers_of(step, *, is_reset):
    """Return the results of onnxruntime-training: the loss, and by input name the values that it writes over the
    input."""
    import onnxruntime

    model = onnx.ModelProto()
    model.CopyFrom(step)
    expected = {model.graph.output[0].name: "loss"}
    for node in list(model.graph.node):
        if node.op_type == "InPlaceAccumulatorV2":
            expected[node.output[1]] = node.input[0]
        elif node.op_type == "BatchNormInternal":
            expected |= dict(zip(node.output[1:3], node.input[3:5], strict=True))
        elif node.op_type == "AdamWOptimizer":
            sequences = [next(n for n in model.graph.node if name in n.output) for name in node.input[2:]]
            for sequence in (sequences[0], *sequences[2:]):
                updated = f"{sequence.output[0]}_updated"
                node.output.append(updated)
                for position, name in enumerate(sequence.input):
                    number = f"{updated}_{position}"
                    value = helper.make_tensor(number, TensorProto.INT64, [], [position])
                    model.graph.initializer.append(value)
                    model.graph.node.append(helper.make_node("SequenceAt", [updated, number], [f"{name}_updated"]))
                    expected[f"{name}_updated"] = name
    del model.graph.output[:]
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in expected)
    results = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feed(step, is_reset=is_reset))
    return dict(zip(expected.values(), results, strict=True))


def main():
    """Write the graphs and the numbers."""
    import torch

    torch.manual_seed(0)
    for name, (network, inputs) in _networks().items():
        training, optimizer = _artifacts(network, inputs)
        onnx.save(training, HERE / f"{name}_training.onnx")
        onnx.save(optimizer, HERE / f"{name}_optimizer.onnx")
        step = training_step(training, optimizer, name)
        both = [numbers_of(step, is_reset=is_reset) for is_reset in (False, True)]
        numbers = {key: np.stack([sample(results[key]) for results in both]) for key in both[0]}
        np.savez_compressed(HERE / f"{name}_step.npz", **numbers)


if __name__ == "__main__":
    main()
