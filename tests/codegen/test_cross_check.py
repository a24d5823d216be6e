"""One program, several back ends: generated C++ checks and Python say the same of random calls, word for word."""

import os
import random
import subprocess

import pytest

from opforge.codegen.dtypes import DTYPES, FORMATS
from opforge.codegen.model import PRODUCTS
from opforge.codegen.names import lower_camel, upper_camel
from opforge.codegen.render import render
from opforge.codegen.semantics import Call, ShapeRefusal, check, infer

OPERATORS = [
    "batch_norm_elemt_backward",
    "conv_tbc_backward",
    "embedding_dense_backward",
    "grouped_bias_add_grad",
    "nsa_compress_grad",
    "scale_rows",
]
SIZES = [0, 1, 2, 3, 16, 32, 255, 2048, 2049, 2**31, 2**40, 2**62, -1]
NUMBERS = [0, 1, 2, 3, 4, -1, -2, 16, 17, 32, 48, 2**31, 2**62, -(2**63)]

PROGRAM = """
#include <deque>
#include <iostream>
#include "NAME_check.h"
using namespace opforge;
static int64_t Number()
{
    int64_t number = 0;
    std::cin >> number;
    return number;
}
static void Read(std::vector<int64_t>& numbers)
{
    numbers.resize(static_cast<size_t>(Number()));
    for (int64_t& number : numbers) number = Number();
}
static void Read(Argument& argument)
{
    argument.isPresent = Number() != 0;
    argument.isRankKnown = Number() != 0;
    argument.dtype = static_cast<DataType>(Number());
    argument.format = static_cast<Format>(Number());
    argument.areValuesKnown = Number() != 0;
    Read(argument.dims);
    Read(argument.values);
}
static void Read(int64_t& value) { value = Number(); }
static void Read(bool& value) { value = Number() != 0; }
static void Read(float& value) { std::cin >> value; }
[[maybe_unused]] static void Read(const char*& value)
{
    static std::deque<std::string> texts;
    std::cin >> texts.emplace_back();
    value = texts.back().c_str();
}
static void Print(const Dimensions& shape)
{
    for (const Dimension& dimension : shape) {
        if (dimension.isOpen) {
            std::cout << " open;";
            return;
        }
    }
    for (const Dimension& dimension : shape) std::cout << " " << dimension.value.ValueOr(-1);
    std::cout << ";";
}
int main()
{
    std::ios::sync_with_stdio(false);
    for (int64_t hasOutputs = 0; std::cin >> hasOutputs;) {
        TYPECall call;
        TYPESymbols symbols;
        call.mayCast = Number() != 0;
        call.product = static_cast<Product>(Number());
        const int64_t cores = Number();
        call.cores = cores < 0 ? Int::Unknown() : Int(cores);
        READ
        if (const Verdict broken = CheckTYPE(call, hasOutputs != 0, symbols)) {
            std::cout << broken->status << " " << broken->message << "\\n";
            continue;
        }
        PRINT
        std::cout << "\\n";
    }
}
"""


def compiled_checks(spec, root, folder, change=lambda text: text):
    for path, text in render(spec):
        if path.startswith("op_host/") and path.endswith(".h"):
            (folder / path.split("/")[1]).write_text(change(text) if path.endswith("_check.h") else text)
    reads = [f"Read(call.{lower_camel(parameter.name)});" for parameter in (*spec.tensors, *spec.attrs)]
    prints = [f"Print({upper_camel(output.name)}Shape(call, symbols));" for output in spec.outputs]
    text = PROGRAM.replace("NAME", spec.name).replace("TYPE", spec.op_type)
    source = folder / "checks.cpp"
    source.write_text(text.replace("READ", "\n        ".join(reads)).replace("PRINT", "\n        ".join(prints)))
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    subprocess.run([*command, f"-I{root / 'op_host'}", source, "-o", folder / "checks"], check=True)
    return folder / "checks"


def counted(numbers):
    return [len(numbers), *(-1 if number is None else number for number in numbers)]


def cpp_line(spec, call, mode):
    with_outputs, with_casts = mode
    product = 1 + PRODUCTS.index(call.product) if call.product else 0
    words = [int(with_outputs), int(with_casts), product, -1 if call.cores is None else call.cores]
    for tensor in spec.tensors:
        shape, dtype, format_ = (of.get(tensor.name) for of in (call.shapes, call.dtypes, call.formats))
        words += [int(tensor.name in call.shapes), int(shape is not None)]
        words += [DTYPES[dtype].number if dtype else -1, FORMATS.get(format_, -1), int(tensor.name in call.values)]
        words += [*counted(shape or ()), *counted(call.values.get(tensor.name, ()))]
    words += [int(v) if isinstance(v, bool) else v for v in (call.attrs[attr.name] for attr in spec.attrs)]
    return " ".join(map(str, words))


def python_line(spec, call, mode):
    with_outputs, with_casts = mode
    violation = check(spec, call, with_outputs=with_outputs, with_casts=with_casts)
    if violation is not None:
        return f"{violation.status} {violation.message}"
    shapes = [type_.shape for type_ in infer(spec, call).values()]
    return "".join(" open;" if shape is None else "".join(f" {dim}" for dim in shape) + ";" for shape in shapes)


class Calls:
    """Random calls near right ones: those of the spec's tests and wild ones, with a few mistakes."""

    def __init__(self, spec, seed):
        self.spec = spec
        self.rng = random.Random(seed)  # noqa: S311  # the same calls in every run

    def draw(self):
        """A call and the mode in which it is checked."""
        with_outputs = self.rng.random() < 0.5
        shapes, attrs, values = self.from_tests() if self.rng.random() < 0.6 and self.spec.tests.shapes else self.wild()
        if with_outputs and self.rng.random() < 0.8:
            shapes |= self.inferred(shapes, attrs)
        if not with_outputs:
            shapes = {tensor.name: shapes[tensor.name] for tensor in self.spec.inputs if tensor.name in shapes}
        shapes, values = self.with_mistakes(shapes, values)
        dtypes = {name: dtype for name, dtype in self.dtypes().items() if name in shapes}
        formats = {name: self.rng.choice([*FORMATS]) for name in shapes if self.rng.random() < 0.02}
        product = self.rng.choice([None, *PRODUCTS, "ascend910", "ascend910"])
        cores = self.rng.choice([None, 0, 1, 32, 48])
        return Call(shapes, dtypes, attrs, values, formats, product, cores), (with_outputs, self.rng.random() < 0.5)

    def from_tests(self):
        test = self.rng.choice(self.spec.tests.shapes)
        symbols, attrs = dict(test.symbols), self.default_attrs() | test.attrs
        values = {name: list(numbers) for name, numbers in test.values.items()}
        if self.rng.random() < 0.2:
            symbol = self.rng.choice(list(symbols))
            if isinstance(symbols[symbol], int):
                symbols[symbol] += self.rng.choice([-1, 1])
        if attrs and self.rng.random() < 0.3:
            name = self.rng.choice(list(attrs))
            attrs[name] = self.attr(next(attr for attr in self.spec.attrs if attr.name == name))
        for numbers in values.values():
            if self.rng.random() < 0.3:
                numbers[self.rng.randrange(len(numbers))] += self.rng.choice([-1, 1, -200, 16])
        return self.shapes(test.case, symbols, attrs), attrs, values

    def wild(self):
        program = self.spec.program
        symbols = {symbol: self.rng.choice(SIZES) for symbol in program.symbols}
        symbols |= {star: self.rng.choices(SIZES, k=self.rng.randrange(4)) for star in program.stars}
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
        return self.rng.choice(choices[attr.type])

    def shapes(self, case, symbols, attrs):
        known = {**symbols, **{name: value for name, value in attrs.items() if isinstance(value, int)}}
        shapes = {}
        for tensor, dims in self.spec.program.case(case).shapes.items():
            shape = []
            for dim in dims:
                if dim.star:
                    shape += symbols[dim.star]
                else:
                    shape.append(known.get(dim.text, self.computed(dim.text, known)))
            if self.spec.tensor(tensor).optional and self.rng.random() < 0.2:
                continue
            shapes[tensor] = tuple(shape)
        return shapes

    def computed(self, text, known):
        try:
            return max(-1, min(2**62, eval(text, {"__builtins__": {}}, known)))  # noqa: S307  # texts of our own specs
        except (NameError, ZeroDivisionError):
            return self.rng.choice(SIZES)

    def inferred(self, shapes, attrs):
        inputs = {tensor.name for tensor in self.spec.inputs}
        known = {name: shape for name, shape in shapes.items() if name in inputs}
        try:
            types = infer(self.spec, Call(known, {}, attrs), with_checks=False)
        except ShapeRefusal:
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

    def dtypes(self):
        """One dtype for all that follow an input, mostly; now and then one that fits nothing."""
        dtypes = {}
        for tensor in self.spec.tensors:
            own = [*tensor.dtypes, *tensor.casts] if self.rng.random() < 0.1 else tensor.dtypes
            dtypes[tensor.name] = self.rng.choice(own)
            if tensor.dtype is not None and self.rng.random() < 0.97:
                dtypes[tensor.name] = dtypes[tensor.dtype]
            if self.rng.random() < 0.02:
                dtypes[tensor.name] = self.rng.choice(["int8", "uint64", "bfloat16", None])
        return dtypes


def answers_of(program, lines):
    text = "\n".join(lines)
    return subprocess.run([program], input=text, check=True, capture_output=True, text=True).stdout.splitlines()


def compare(spec, program, count):
    calls = Calls(spec, seed=7)
    drawn = [calls.draw() for _ in range(count)]
    answers = answers_of(program, (cpp_line(spec, *one) for one in drawn))
    assert len(answers) == len(drawn)
    for one, answer in zip(drawn, answers, strict=True):
        assert answer == python_line(spec, *one), one
    return answers


@pytest.fixture
def spec_of(operators, specimen):
    return {**operators, specimen.name: specimen}


@pytest.mark.parametrize("name", OPERATORS)
def test_generated_checks_say_what_python_says(name, spec_of, root, tmp_path):
    spec = spec_of[name]
    answers = compare(spec, compiled_checks(spec, root, tmp_path), 20_000)
    labels = {answer.rsplit("[", 1)[-1][:-1] for answer in answers if answer.endswith("]")}
    assert labels == {constraint.label for constraint in spec.constraints}, "every constraint must be broken once"
    assert any(answer.endswith(";") for answer in answers)


@pytest.mark.all
@pytest.mark.parametrize("name", OPERATORS)
def test_generated_checks_say_what_python_says_of_many_calls(name, spec_of, root, tmp_path):
    compare(spec_of[name], compiled_checks(spec_of[name], root, tmp_path), 100_000)


def test_every_operator_is_compared(spec_of):
    assert sorted(spec_of) == OPERATORS


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("grouped_bias_add_grad", "<= Int(2048)", "< Int(2048)"),
        ("nsa_compress_grad", "return L >= Int(0)", "return L > Int(0)"),
        ("embedding_dense_backward", "DimFromEnd(call.grad, 1)", "DimOf(call.grad, 0)"),
        ("batch_norm_elemt_backward", "StarOf(call.gradOut, 2, 0)", "StarOf(call.gradOut, 1, 0)"),
        ("conv_tbc_backward", "Int(2) * Int(call.pad)", "Int(call.pad)"),
    ],
)
def test_a_broken_back_end_is_noticed(name, old, new, spec_of, root, tmp_path):
    def broken(text):
        assert old in text, "the header must have the expression that is to be broken"
        return text.replace(old, new)

    program = compiled_checks(spec_of[name], root, tmp_path, broken)
    with pytest.raises(AssertionError):
        compare(spec_of[name], program, 3000)
