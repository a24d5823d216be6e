"""The example call on an operator's page: the first test of its spec that has more than one element."""

from __future__ import annotations

from opforge.codegen.escape import Code
from opforge.codegen.evaluate import Environment, evaluate
from opforge.codegen.model import OpSpec, TestShape


class ExampleView:
    """A call in Python: inputs and attributes as (name, Python expression)."""

    def __init__(self, spec: OpSpec, test: TestShape) -> None:
        case = spec.program.case(test.case)
        sizes = {name: size for name, size in test.symbols.items() if isinstance(size, int)}
        stars = {name: size for name, size in test.symbols.items() if not isinstance(size, int)}
        attrs = {attr.name: attr.default for attr in spec.attrs} | test.attrs
        environment = Environment(symbols=sizes, attributes=attrs, stars=stars)
        self.inputs: list[tuple[str, Code]] = []
        for tensor in spec.inputs:
            if tensor.name in test.values:
                self.inputs.append((tensor.name, Code(list(test.values[tensor.name]))))
            elif tensor.name in case.shapes and not (tensor.host_values and not test.values):
                dims: list[object] = []
                for dim in case.shapes[tensor.name]:
                    dims += stars[dim.star] if dim.star else [evaluate(dim.expression, environment)]
                word = next((dtype for dtype in tensor.dtypes if dtype != "bfloat16"), "float32")
                self.inputs.append((tensor.name, Code(f"np.ones({tuple(dims)}, np.{word})")))
        self.attrs = [(name, Code(repr(value))) for name, value in sorted(test.attrs.items())]


def example_of(spec: OpSpec) -> ExampleView | None:
    """The example of an operator; None if its spec has no test."""
    tests = [test for test in spec.tests.shapes if test.note != "one element"]
    return ExampleView(spec, tests[0]) if tests else None
