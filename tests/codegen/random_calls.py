"""Generate random calls of an operator, most of them nearly valid, to compare the back ends."""

from __future__ import annotations

import random

from opforge.codegen.data.dtypes import FORMATS
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.spec.semantics import Call, ShapeInferenceError, infer

SIZES = [0, 1, 2, 3, 16, 32, 255, 2048, 2049, 2**31, 2**40, 2**62, -1]
NUMBERS = [0, 1, 2, 3, 4, -1, -2, 16, 17, 32, 48, 2**31, 2**62, -(2**63)]


class Calls:
    """Random calls: variations of the test calls of the spec, with a few errors."""

    def __init__(self, spec, seed):
        self.spec = spec
        self.rng = random.Random(seed)  # noqa: S311  # the same calls in every run

    def draw(self):
        """Return a call and the mode in which it is checked."""
        with_outputs = self.rng.random() < 0.5
        shapes, attrs, values = self.from_tests() if self.rng.random() < 0.6 and self.spec.tests.shapes else self.wild()
        if with_outputs and self.rng.random() < 0.8:
            shapes |= self.inferred(shapes, attrs)
        counts = {name: Call(shapes).tensors_in(name) for name in self.spec.program.lists}
        if not with_outputs:
            inputs = {tensor.name for tensor in self.spec.inputs}
            shapes = {name: shape for name, shape in shapes.items() if name.partition("[")[0] in inputs}
        for name in counts:
            if self.rng.random() < 0.03:
                counts[name] += self.rng.choice([-1, 1])
        shapes = {name: shape for name, shape in shapes.items() if self.is_in(name, counts)}
        shapes, values = self.with_mistakes(shapes, values)
        dtypes = self.dtypes(shapes)
        formats = {name: self.rng.choice([*FORMATS]) for name in shapes if self.rng.random() < 0.02}
        product = self.rng.choice([None, *PRODUCTS, "ascend910", "ascend910"])
        cores = self.rng.choice([None, 0, 1, 32, 48])
        call = Call(shapes, dtypes, attrs, values, formats, product, cores, counts)
        return call, (with_outputs, self.rng.random() < 0.5)

    @staticmethod
    def is_in(name, counts):
        """Return whether a name is a tensor, or a tensor of a list with this number of tensors."""
        tensor, bracket, index = name.partition("[")
        return not bracket or int(index[:-1]) < counts[tensor]

    def from_tests(self):
        test = self.rng.choice(self.spec.tests.shapes)
        symbols, attrs = dict(test.symbols), self.default_attrs() | test.attrs
        values = {name: list(numbers) for name, numbers in test.values.items()}
        if symbols and self.rng.random() < 0.2:
            symbol = self.rng.choice(list(symbols))
            if isinstance(symbols[symbol], int):
                symbols[symbol] += self.rng.choice([-1, 1])
        if attrs and self.rng.random() < 0.3:
            name = self.rng.choice(list(attrs))
            attrs[name] = self.attr(next(attr for attr in self.spec.attrs if attr.name == name))
        for numbers in values.values():
            if self.rng.random() < 0.3:
                numbers[self.rng.randrange(len(numbers))] += self.rng.choice([-1, 1, -200, 16])
        return self.shapes(test.case, symbols, attrs, test.counts), attrs, values

    def wild(self):
        program = self.spec.program
        symbols = {symbol: self.rng.choice(SIZES) for symbol in program.symbols}
        symbols |= {star: self.rng.choices(SIZES, k=self.rng.randrange(4)) for star in program.stars}
        members = range(self.rng.randrange(1, 7))
        symbols |= {symbol: [self.rng.choice(SIZES) for _ in members] for symbol in program.member_symbols}
        symbols |= {
            star: [self.rng.choices(SIZES, k=self.rng.randrange(4)) for _ in members] for star in program.member_stars
        }
        attrs = {attr.name: self.attr(attr) for attr in self.spec.attrs}
        values = {}
        for of in self.spec.host_lists:
            if self.rng.random() < 0.8:
                values[of.name] = self.rng.choices([*NUMBERS, 2**63 - 1], k=self.rng.randrange(12))
        return self.shapes(self.rng.choice(program.cases).name, symbols, attrs), attrs, values

    def default_attrs(self):
        return {attr.name: self.attr(attr) if attr.default is None else attr.default for attr in self.spec.attrs}

    def attr(self, attr):
        choices = {
            "int": [attr.default if isinstance(attr.default, int) else 0, *NUMBERS],
            "bool": [False, True],
            "float": [0.0, 0.5, -2.25, 0.1],
            "string": ["TND", "BSH"],
        }
        if attr.type.startswith("list_"):
            return self.items(attr, choices[attr.type.removeprefix("list_")])
        return self.rng.choice(choices[attr.type])

    def items(self, attr, choices):
        """Return a list, usually of the length in the tests or in the default."""
        known = [test.attrs[attr.name] for test in self.spec.tests.shapes if attr.name in test.attrs]
        known += [attr.default] if attr.default is not None else []
        like = list(self.rng.choice(known))
        if like and self.rng.random() < 0.7:
            like[self.rng.randrange(len(like))] = self.rng.choice(choices)
        elif self.rng.random() < 0.3:
            like = self.rng.choices(choices, k=self.rng.randrange(12))
        return tuple(like)

    def shapes(self, case, symbols, attrs, counts=None):
        case = self.spec.program.case(case)
        members = [binding.symbol for binding in case.members]
        count = len(symbols[members[0]]) if members else 0
        shapes = {}
        for tensor, dims in case.shapes.items():
            if self.spec.tensor(tensor).optional and self.rng.random() < 0.2:
                continue
            if tensor not in self.spec.program.lists:
                shapes[tensor] = self.shape(dims, symbols, attrs)
                continue
            is_bound = tensor in {*case.parallel, *(binding.tensor for binding in case.members)}
            number = count if is_bound else (counts or {}).get(tensor, self.rng.randrange(1, 6))
            for index in range(number):
                own = {symbol: symbols[symbol][index] for symbol in members if index < len(symbols[symbol])}
                shapes[f"{tensor}[{index}]"] = self.shape(dims, {**symbols, **own, "index": index}, attrs)
        return shapes

    def shape(self, dims, symbols, attrs):
        known = {**symbols, **attrs}
        shape = []
        for dim in dims:
            if dim.star:
                shape += symbols[dim.star]
            else:
                value = known.get(dim.text)
                shape.append(value if isinstance(value, int) else self.computed(dim.text, known))
        return tuple(shape)

    def computed(self, text, known):
        try:
            value = eval(text, {"__builtins__": {"len": len}}, known)  # noqa: S307  # texts of our own specs
            return max(-1, min(2**62, value))
        except (NameError, ZeroDivisionError, IndexError):
            return self.rng.choice(SIZES)

    def inferred(self, shapes, attrs):
        inputs = {tensor.name for tensor in self.spec.inputs}
        known = {name: shape for name, shape in shapes.items() if name.partition("[")[0] in inputs}
        try:
            types = infer(self.spec, Call(known, {}, attrs), with_checks=False)
        except ShapeInferenceError:
            return {}
        return {name: type_.shape for name, type_ in types.items()}

    def with_mistakes(self, shapes, values):
        for name in list(shapes):
            mistake = self.rng.random()
            if mistake < 0.02:
                del shapes[name]
            elif mistake < 0.04:
                shapes[name] = None
            elif mistake < 0.06 and shapes[name] is not None:
                shapes[name] = (*shapes[name], 1)
            elif mistake < 0.08 and shapes[name]:
                shapes[name] = (*shapes[name][:-1], self.rng.choice(SIZES))
            elif mistake < 0.085 and shapes[name]:
                shapes[name] = (*shapes[name], *[1] * 8)
        for name, numbers in list(values.items()):
            if name not in shapes:
                del values[name]
            elif self.rng.random() < 0.95:
                shapes[name] = (len(numbers),)
        return shapes, values

    def dtypes(self, shapes):
        """Return dtypes, usually one for all tensors that follow an input; sometimes an unsupported one."""
        dtypes, of = {}, {}
        for tensor in self.spec.tensors:
            own = [*tensor.dtypes, *tensor.casts] if self.rng.random() < 0.1 else tensor.dtypes
            of[tensor.name] = self.rng.choice(own)
            if tensor.dtype is not None and self.rng.random() < 0.97:
                of[tensor.name] = of[tensor.dtype]
            for name in (name for name in shapes if name.partition("[")[0] == tensor.name):
                is_other = self.rng.random() < 0.02
                dtypes[name] = self.rng.choice(["int8", "uint64", "bfloat16", None]) if is_other else of[tensor.name]
        return dtypes
