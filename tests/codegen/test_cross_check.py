"""Compare generated C++ checks with Python on random calls: results and messages must be equal."""

import os
import subprocess
from pathlib import Path

import pytest

from opforge.codegen.data.dtypes import DTYPES, FORMATS
from opforge.codegen.data.names import lower_camel, upper_camel
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.render import TABLES_HEADER, render, tables_header
from opforge.codegen.spec.semantics import check, infer

ROOT = Path(__file__).resolve().parent.parent.parent
OPERATORS = sorted(
    [
        *(path.stem for path in (ROOT / "op_proto").glob("*.yaml")),
        *("scale_rows", "row_window", "pair_product", "add_to", "add_lists", "split_rows", "scale_all", "fill_steps"),
    ]
)
LIST = """
static void Read(ListArgument& list)
{
    Resize(list, static_cast<size_t>(Number()));
    for (Argument& tensor : list.elements) Read(tensor);
}
"""
PROGRAM = """
#include <deque>
#include <iostream>
#include <string>
INCLUDES
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
LIST
static void Read(int64_t& value) { value = Number(); }
static void Read(bool& value) { value = Number() != 0; }
static void Read(float& value) { std::cin >> value; }
template <typename T>
static void Read(std::vector<T>& items)
{
    items.clear();
    for (int64_t count = Number(); count > 0; --count) {
        T item = {};
        Read(item);
        items.push_back(item);
    }
}
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
"""
OPERATOR = """
static void RunTYPE()
{
    for (int64_t hasOutputs = 0; std::cin >> hasOutputs;) {
        TYPECall call;
        TYPESymbols symbols;
        call.mayCast = Number() != 0;
        call.product = static_cast<Product>(Number());
        const int64_t cores = Number();
        call.cores = cores < 0 ? Int::Unknown() : Int(cores);
        READ
        if (const MaybeViolation broken = CheckTYPE(call, hasOutputs != 0, symbols)) {
            std::cout << broken->status << " " << broken->message << "\\n";
            continue;
        }
        PRINT
        std::cout << "\\n";
    }
}
"""
MAIN = """
int main(int, char** words)
{
    std::ios::sync_with_stdio(false);
    CALLS
}
"""


def checks_of(spec):
    """Return C++ code that reads calls of an operator, and prints the answers of its checks."""
    reads = [f"Read(call.{lower_camel(parameter.name)});" for parameter in (*spec.tensors, *spec.attrs)]
    prints = [
        f"for (size_t i = 0; i < {upper_camel(output.name)}Size(call, symbols); ++i) "
        f"Print({upper_camel(output.name)}Shape(call, symbols, i));"
        if output.dynamic
        else f"Print({upper_camel(output.name)}Shape(call, symbols));"
        for output in spec.outputs
    ]
    text = OPERATOR.replace("TYPE", spec.op_type).replace("READ", "\n        ".join(reads))
    return text.replace("PRINT", "\n        ".join(prints))


def compile_checks(specs, root, folder, change=lambda _, text: text):
    """Compile one program, `checks`, with the checks of all specs; `change` may modify a header of an operator."""
    for spec in specs:
        for path, text in [*render(spec), (TABLES_HEADER, tables_header())]:
            if path.startswith("op_host/") and path.endswith(".h"):
                is_changed = path.endswith("_check.h")
                (folder / path.split("/")[1]).write_text(change(spec.name, text) if is_changed else text)
    includes = "\n".join(f'#include "{spec.name}_check.h"' for spec in specs)
    calls = "\n".join(f'if (words[1] == std::string("{spec.name}")) Run{spec.op_type}();' for spec in specs)
    lists = LIST if any(spec.program.lists for spec in specs) else ""
    parts = [
        PROGRAM.replace("INCLUDES", includes).replace("LIST", lists),
        *map(checks_of, specs),
        MAIN.replace("CALLS", calls),
    ]
    source = folder / "checks.cpp"
    source.write_text("".join(parts))
    command = [os.environ.get("CXX", "g++"), "-std=c++17", "-O0", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    subprocess.run([*command, f"-I{root / 'op_host'}", f"-I{folder}", source, "-o", folder / "checks"], check=True)


@pytest.fixture(scope="module")
def program(once, spec_of, root):
    """Return the program with the checks of all operators."""
    return once("checks", lambda folder: compile_checks([spec_of[name] for name in OPERATORS], root, folder)) / "checks"


def counted(numbers):
    return [len(numbers), *(-1 if number is None else number for number in numbers)]


def cpp_line(spec, call, mode):
    with_outputs, with_casts = mode
    product = 1 + list(PRODUCTS).index(call.product) if call.product else 0
    words = [int(with_outputs), int(with_casts), product, -1 if call.cores is None else call.cores]
    for tensor in spec.tensors:
        names = [tensor.name]
        if tensor.dynamic:
            names = [f"{tensor.name}[{index}]" for index in range(call.tensors_in(tensor.name))]
            words.append(len(names))
        for name in names:
            shape, dtype, format_ = (of.get(name) for of in (call.shapes, call.dtypes, call.formats))
            words += [int(name in call.shapes), int(shape is not None)]
            words += [DTYPES[dtype].number if dtype else -1, FORMATS.get(format_, -1), int(name in call.values)]
            words += [*counted(shape or ()), *counted(call.values.get(name, ()))]
    for value in (call.attrs[attr.name] for attr in spec.attrs):
        items = [len(value), *value] if isinstance(value, tuple) else [value]
        words += [int(item) if isinstance(item, bool) else item for item in items]
    return " ".join(map(str, words))


def python_line(spec, call, mode):
    with_outputs, with_casts = mode
    violation = check(spec, call, with_outputs=with_outputs, with_casts=with_casts)
    if violation is not None:
        return f"{violation.status} {violation.message}"
    shapes = [type_.shape for type_ in infer(spec, call).values()]
    return "".join(" open;" if shape is None else "".join(f" {dim}" for dim in shape) + ";" for shape in shapes)


def answers_of(program, name, lines):
    text = "\n".join(lines)
    return subprocess.run([program, name], input=text, check=True, capture_output=True, text=True).stdout.splitlines()


def compare(spec, program, calls, count):
    drawn = [calls.draw() for _ in range(count)]
    answers = answers_of(program, spec.name, (cpp_line(spec, *one) for one in drawn))
    assert len(answers) == len(drawn)
    for one, answer in zip(drawn, answers, strict=True):
        assert answer == python_line(spec, *one), one
    return answers


def labels_of(answers):
    return {answer.rsplit("[", 1)[-1][:-1] for answer in answers if answer.endswith("]")}


@pytest.mark.parametrize("name", OPERATORS)
def test_generated_checks_agree_with_python(name, spec_of, calls_of, program):
    spec, calls = spec_of[name], calls_of(spec_of[name])
    labels = {constraint.label for constraint in spec.constraints}
    answers = compare(spec, program, calls, 2000)
    while labels_of(answers) < labels and len(answers) < 10_000:
        answers += compare(spec, program, calls, 1000)
    assert labels_of(answers) == labels, "every constraint must be broken once"
    assert any(answer.endswith(";" if spec.outputs else "") and not answer.endswith("]") for answer in answers)


@pytest.mark.all
@pytest.mark.parametrize("name", OPERATORS)
def test_generated_checks_agree_with_python_for_many_calls(name, spec_of, calls_of, program):
    compare(spec_of[name], program, calls_of(spec_of[name]), 100_000)


BROKEN = {
    "grouped_bias_add_grad": ("<= Int(2048)", "< Int(2048)"),
    "nsa_compress_grad": ("return L >= Int(0)", "return L > Int(0)"),
    "embedding_dense_backward": ("DimFromEnd(call.grad, 1)", "DimOf(call.grad, 0)"),
    "batch_norm_elemt_backward": ("StarOf(call.gradOut, 2, 0)", "StarOf(call.gradOut, 1, 0)"),
    "conv_tbc_backward": ("Int(2) * Int(call.pad)", "Int(call.pad)"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_back_end_is_noticed(name, spec_of, calls_of, root, once):
    def broken(name, text):
        old, new = BROKEN[name]
        assert old in text, "the header must have the expression that is to be broken"
        return text.replace(old, new)

    specs = [spec_of[one] for one in BROKEN]
    program = once("broken_checks", lambda folder: compile_checks(specs, root, folder, broken)) / "checks"
    with pytest.raises(AssertionError):
        compare(spec_of[name], program, calls_of(spec_of[name]), 3000)
