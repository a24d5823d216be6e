"""Calls of the operators of all specs in PyTorch, for tests on each device."""

import numpy as np
import torch

from opforge.torch.cpu import to_torch
from opforge.torch.register import SPECS
from opforge.torch.schema import operator_arguments
from opforge.twin.samples import test_inputs as sample_inputs

OPS = torch.ops.opforge
CASES = [(name, test) for name, spec in SPECS.items() for test in spec.tests.shapes]
IDS = [f"{name}-{test.note.replace(' ', '_')}" for name, test in CASES]
ENDS = torch.tensor([3, 7, 10])


def arrays_of(spec, test, dtype):
    leaders = {tensor.name: spec.tensor(tensor.dtype or tensor.name) for tensor in spec.inputs}
    dtypes = {name: dtype if dtype in tensor.dtypes else tensor.dtypes[0] for name, tensor in leaders.items()}
    return sample_inputs(spec, test, dtypes, np.random.default_rng(7))


def arguments_of(spec, test, arrays):
    attrs = {attr.name: test.attrs.get(attr.name, attr.default) for attr in spec.attrs}
    for argument in operator_arguments(spec):
        given = arrays.get(argument.parameter)
        if argument.is_attribute:
            yield attrs[argument.parameter]
        elif given is None:
            yield None
        else:
            yield to_torch(given) if argument.is_tensor else [int(value) for value in given]


def normalized(x, weight, bias):
    """Batch normalization by our operator: statistics of the batch, which autograd sees as constants."""
    dims = [0, *range(2, x.dim())]
    plain = x.detach().to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    invstd = (plain.var(dims, unbiased=False) + 1e-5).rsqrt()
    count = torch.tensor([x.numel() // x.shape[1]], dtype=torch.int32, device=x.device)
    return OPS.batch_norm_elemt(x, weight, bias, plain.mean(dims), invstd, count)


# Calls of forward operators: function, shapes of the tensors with gradients.
FORWARD_CALLS = {
    "grouped_bias_add": [
        (lambda x, bias: OPS.grouped_bias_add(x, bias, ENDS.to(x.device)), (10, 6), (3, 6)),
        (lambda x, bias: OPS.grouped_bias_add(x, bias, torch.tensor([3, 0, 5], device=x.device), 1), (10, 6), (3, 6)),
        (OPS.grouped_bias_add, (3, 4, 5), (3, 5)),
    ],
    "embedding": [
        (lambda table: OPS.embedding(table, torch.tensor([[0, 2, 2], [1, 0, 2]], device=table.device)), (4, 5)),
        (lambda table: OPS.embedding(table, torch.tensor([0, 2, 1], device=table.device)), (3, 5)),
    ],
    "conv_tbc": [(lambda x, w, b: OPS.conv_tbc(x, w, b, 1), (6, 2, 3), (3, 3, 4), (4,))],
    "batch_norm_elemt": [
        (normalized, (4, 3, 5), (3,), (3,)),
        (lambda x: normalized(x, None, None), (4, 3)),
    ],
    "nsa_compress": [
        (lambda x, w: OPS.nsa_compress(x, w, None, 32, 16, 0), (64, 2, 3), (32, 2)),
        (lambda x, w: OPS.nsa_compress(x, w, [0, 40, 80], 32, 16, 0), (80, 2, 3), (32, 2)),
        (lambda x, w: OPS.nsa_compress(x, w, [32, 0, 48], 32, 16, 1), (80, 2, 3), (32, 2)),
    ],
}
CALLS = [(name, *call) for name, calls in FORWARD_CALLS.items() for call in calls]
CALL_IDS = [f"{name}-{number}" for name, calls in FORWARD_CALLS.items() for number, _ in enumerate(calls)]
