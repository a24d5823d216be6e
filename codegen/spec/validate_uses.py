"""Check the sections of a spec for other tools: names in ONNX, PyTorch and CANN, valid values, tests, document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from opforge.codegen.data.names import suggest
from opforge.codegen.expr.attr_kinds import AttrValue, is_float32
from opforge.codegen.expr.evaluate import EvaluationError
from opforge.codegen.expr.program import Case, Program
from opforge.codegen.expr.tree import INT_MAX, INT_MIN
from opforge.codegen.expr.value_text import value_text

from .call import shapes_of_test
from .model import DeclaredSpec, OpSpec
from .onnx_body import body_problems
from .parts import AttrSpec, ValuesSpec
from .section_parts import CallSpec, StatementSpec, TestShape, TorchForward, TorchTarget, TorchVariant
from .yaml_nodes import KEY, Path

Problems = list[tuple[Path, str]]
# The calls for a statement about a parameter.
_SHOWN_BY = {"wider": ("at",), "narrower": ("past",), "different": ("at", "past")}
# The keys of an operator that is declared only.
_OF_DECLARED = {
    "op_type", "summary", "formula", "description", "notes", "products", "configs", "combinations", "declared_only",
    "inputs", "attrs", "outputs",
}  # fmt: skip


def check_unique(problems: Problems, what: str, entries: Iterable[tuple[Path, str]]) -> None:
    """Check that every name occurs once."""
    seen: dict[str, Path] = {}
    for path, name in entries:
        if name in seen:
            section, index = seen[name][0], seen[name][1]
            problems.append((path, f"got {what} {name!r} again, {section}[{index}] has it already"))
        seen.setdefault(name, path)


def check_value(attr: AttrSpec, value: AttrValue, path: Path, problems: Problems) -> None:
    """Check a value of an attribute: its type and size."""
    numbers = value if isinstance(value, tuple) else (value,)
    if not attr.kind.accepts(value):
        got = repr(value) if isinstance(value, str) else value_text(value)
        problems.append((path, f"got {got}, expected a value of type {attr.type}"))
    elif any(isinstance(number, int) and not INT_MIN <= number <= INT_MAX for number in numbers):
        problems.append((path, f"got {value_text(value)}, expected an integer of 64 bits"))
    elif "float" in (attr.type, attr.kind.item) and not all(
        isinstance(n, int | float) and is_float32(n) for n in numbers
    ):
        shown = list(value) if isinstance(value, tuple) else value
        problems.append((path, f"got {shown}, expected 0 or a number of 32 bits, from 1.4e-45 to 3.4e38"))


def check_attrs(spec: OpSpec, problems: Problems) -> None:
    """Check the defaults of attributes."""
    for index, attr in enumerate(spec.attrs):
        if attr.default is not None:
            check_value(attr, attr.default, ("attrs", index, "default"), problems)
        if not (attr.kind.c_types or spec.declared_only):
            expected = "expected it only with 'declared_only: true': OpDef and aclnn functions have no such type"
            problems.append((("attrs", index, "type"), f"got {attr.type!r}, {expected}"))


def check_declared(spec: OpSpec, problems: Problems) -> None:
    """Check that an operator with `declared_only` has no sections about rules and kernels."""
    if not spec.declared_only:
        return
    fields = {name: field for name, field in DeclaredSpec.model_fields.items() if name not in _OF_DECLARED}
    problems += [
        ((name,), "got this key, expected none with 'declared_only: true'; remove one of them")
        for name, field in fields.items()
        if getattr(spec, name) != field.get_default(call_default_factory=True)
    ]


def check_names_elsewhere(spec: OpSpec, problems: Problems) -> None:
    """Check the names of the operator and its parameters in ONNX models, in PyTorch and in CANN."""
    cases = {case.name: case for case in spec.cases}
    for name in spec.onnx.bodies:
        if name not in cases:
            problems.append((("onnx", "bodies", name, KEY), f"unknown case {name!r}; {suggest(name, cases)}"))
        else:
            problems += [(("onnx", "bodies", name), problem) for problem in body_problems(spec, name)]
    own = {spec.op_type, *(function.function for function in spec.aclnn)}
    for section, names, known in (("aliases", spec.onnx.aliases, None), ("builtin", spec.builtin, own)):
        path: Path = ("onnx", section) if known is None else (section,)
        for index, name in enumerate(names):
            if name in names[:index]:
                problems.append(((*path, index), f"got {name!r} again, expected each name once"))
            elif known is not None and name not in known:
                problems.append(((*path, index), f"got {name!r}; {suggest(name, known)}"))
    _check_torch(spec, problems)


def _check_torch(spec: OpSpec, problems: Problems) -> None:
    targets = [(("torch", "targets", i, "target"), t.target) for i, t in enumerate(spec.torch.targets)]
    check_unique(problems, "the target", targets)
    for section, group in (("targets", spec.torch.targets), ("variants", spec.torch.variants)):
        for index, target in enumerate(group):
            _check_target(spec, target, ("torch", section, index), problems)
    for name in spec.torch.names:
        if name not in (inputs := [tensor.name for tensor in spec.inputs]):
            problems.append((("torch", "names", name, KEY), f"unknown input {name!r}; {suggest(name, inputs)}"))
    if spec.torch.forward is not None:
        _check_forward(spec, spec.torch.forward, problems)


def _check_forward(spec: OpSpec, forward: TorchForward, problems: Problems) -> None:
    path: Path = ("torch", "forward")
    inputs, attrs = [tensor.name for tensor in spec.inputs], [attr.name for attr in spec.attrs]
    tensors = [tensor.name for tensor in spec.tensors]
    named = [
        ("result", forward.result, inputs),
        *((("attrs", index), name, attrs) for index, name in enumerate(forward.attrs)),
        *((("inputs", index, "like"), tensor.like, tensors) for index, tensor in enumerate(forward.inputs)),
    ]
    gradients = [*tensors, *forward.derived]
    named += [
        (("inputs", index, "gradient"), tensor.gradient, gradients)
        for index, tensor in enumerate(forward.inputs)
        if tensor.gradient
    ]
    for place, name, known in named:
        if name not in known:
            where = place if isinstance(place, tuple) else (place,)
            problems.append(((*path, *where), f"got {name!r}; {suggest(name, known)}"))
    given = {forward.result, *forward.derived, *(tensor.like for tensor in forward.inputs)}
    problems += [
        (path, f"{tensor.name!r} is missing, expected it as 'like' of an input or in 'derived'")
        for tensor in spec.inputs
        if not tensor.optional and tensor.name not in given
    ]


def _check_target(spec: OpSpec, target: TorchTarget, path: Path, problems: Problems) -> None:
    inputs, attrs = [tensor.name for tensor in spec.inputs], [attr.name for attr in spec.attrs]
    given = list(target.args.values())
    ones = target.ones if isinstance(target, TorchVariant) else ()
    _check_arguments(target, [*inputs, *attrs], path, problems)
    for section, names, known in (("attrs", target.attrs, attrs), ("ones", ones, inputs)):
        free = [name for name in known if name not in given]
        for index, name in enumerate(names):
            if name not in free:
                place: Path = (*path, section, name, KEY) if section == "attrs" else (*path, section, index)
                problems.append((place, f"got {name!r}; {suggest(name, free)}"))
    needed = [tensor.name for tensor in spec.inputs if not tensor.optional]
    needed += [attr.name for attr in spec.attrs if attr.default is None]
    problems += [
        (path, f"{name!r} is missing, expected it in 'args' or 'attrs'")
        for name in needed
        if name not in {*given, *target.attrs, *ones}
    ]


def _check_arguments(target: TorchTarget, parameters: list[str], path: Path, problems: Problems) -> None:
    """Check the arguments of a function of PyTorch: each is a parameter, or has one supported value."""
    fixed = target.fixed if isinstance(target, TorchVariant) else {}
    given = list(target.args.values())
    for argument, name in target.args.items():
        place: Path = (*path, "args", argument)
        if argument in fixed:
            if name:
                problems.append((place, f"got {name!r}, expected '': 'fixed' has its value"))
        elif name not in parameters:
            problems.append((place, f"unknown parameter {name!r}; {suggest(name, parameters)}"))
        elif given.count(name) > 1:
            problems.append((place, f"got {name!r} again, expected each parameter once"))
    for argument in fixed:
        if argument not in target.args:
            hint = suggest(argument, target.args)
            problems.append(((*path, "fixed", argument, KEY), f"unknown argument {argument!r}; {hint}"))


def check_combinations(spec: OpSpec, problems: Problems) -> None:
    """Check the columns of dtypes: one for each tensor with dtypes, all of one length."""
    if not spec.combinations:
        return
    free = [tensor for tensor in spec.tensors if tensor.dtype is None]
    names = [tensor.name for tensor in free]
    for name in spec.combinations:
        if name not in names:
            problems.append((("combinations", name, KEY), f"got {name!r}; {suggest(name, names)}"))
    problems += [
        (("combinations",), f"{name!r} is missing, expected its dtype in each combination")
        for name in names
        if name not in spec.combinations
    ]
    width = len(next(iter(spec.combinations.values())))
    for name, column in spec.combinations.items():
        if len(column) != width:
            problems.append(
                (("combinations", name), f"got {len(column)} dtypes, expected {width} as in the first list")
            )
    for tensor in free:
        own = {row[tensor.name] for row in spec.supported_combinations if tensor.name in row}
        # Without a supported combination, every call is rejected, so the dtypes have no meaning.
        if tensor.name in spec.combinations and own and set(tensor.dtypes) != own:
            place: Path = ("combinations", tensor.name)
            expected = f"expected those of 'dtypes', {', '.join(tensor.dtypes)}"
            problems.append((place, f"got the dtypes {', '.join(sorted(own)) or 'none'}, {expected}"))
    problems += [
        (("combinations",), f"got {tensor.name!r} with casts, expected no 'casts' and 'mix' beside combinations")
        for tensor in spec.tensors
        if tensor.casts or tensor.mix
    ]


def check_values(spec: OpSpec, problems: Problems) -> None:
    """Check the valid values of inputs: an interval or ranges of rows; the expressions are checked elsewhere."""
    inputs = [tensor.name for tensor in spec.inputs]
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            path: Path = (section, index, "values")
            given = set(tensor.values.model_dump(exclude_none=True))
            if tensor.values == ValuesSpec():
                continue
            if section == "outputs":
                problems.append((path, "got values, expected them only with inputs"))
            elif given not in ({"low", "high"}, {"ends_of"}, {"ends_of", "lengths_when"}):
                expected = "expected 'low' and 'high', or 'ends_of' and optionally 'lengths_when'"
                problems.append((path, f"got {', '.join(sorted(given))}; {expected}"))
            of = tensor.values.ends_of
            if of is not None and (of not in inputs or of == tensor.name):
                others = [name for name in inputs if name != tensor.name]
                problems.append(((*path, "ends_of"), f"got {of!r}; {suggest(of, others)}"))


def check_tests(spec: OpSpec, program: Program, problems: Problems) -> None:
    """Check the calls of tests: their cases, symbols, attributes and values."""
    for index, test in enumerate(spec.tests.shapes):
        check_test(spec, program, test, ("tests", "shapes", index), problems)


def check_test(spec: OpSpec, program: Program, test: TestShape, path: Path, problems: Problems) -> None:
    """Check one call of a test."""
    cases = {case.name: case for case in program.cases}
    attrs = {attr.name: attr for attr in spec.attrs}
    lists = [tensor.name for tensor in spec.host_lists]
    found = len(problems)
    if test.case not in cases:
        problems.append(((*path, "case"), f"unknown case {test.case!r}; {suggest(test.case, cases)}"))
        return
    _check_test_symbols(cases[test.case], test, (*path, "symbols"), problems)
    _check_counts(spec, cases[test.case], test, path, problems)
    _check_test_attrs(attrs, test, path, problems)
    problems += [
        ((*path, "values", name, KEY), f"unknown host list {name!r}; {suggest(name, lists)}")
        for name in test.values
        if name not in lists
    ]
    if len(problems) == found:
        try:
            shapes_of_test(program, test, attrs)
        except EvaluationError as error:
            problems.append(((*path, "symbols"), f"got {error}, expected dimensions of at least 0"))


def _check_test_symbols(case: Case, shape: TestShape, path: Path, problems: Problems) -> None:
    symbols = {binding.symbol: binding.is_star for binding in case.bindings}
    members = {binding.symbol: binding.is_star for binding in case.members}
    for name, size in shape.symbols.items():
        if name in members:
            if not _is_of_members(size, is_star=members[name]):
                expected = "a list of dimensions" if members[name] else "one number"
                problems.append(((*path, name), f"got {_plain(size)}, expected {expected} for each tensor of the list"))
        elif name not in symbols:
            known = {*symbols, *members}
            problems.append(((*path, name, KEY), f"unknown symbol {name!r}; {suggest(name, known)}"))
        elif isinstance(size, int) == symbols[name] or (symbols[name] and _is_of_members(size, is_star=True)):
            expected = "a list of dimensions" if symbols[name] else "one number"
            problems.append(((*path, name), f"got {_plain(size)}, expected {expected}"))
    if missing := sorted({*symbols, *members} - set(shape.symbols)):
        example = "4" if missing[0] in symbols else "[4, 8]"
        if (symbols | members)[missing[0]]:
            example = "[4, 8]" if missing[0] in symbols else "[[4, 8], [3]]"
        kind = "a list of dimensions" if example.startswith("[") and missing[0] in symbols else "a number"
        kind = "one entry for each tensor" if missing[0] in members else kind
        problems.append((path, f"{missing[0]!r} is missing, expected {kind}, as in {missing[0]}: {example}"))
        return
    shared = [binding.symbol for binding in case.members if binding.tensor in case.parallel]
    if len({len(size) for name, size in shape.symbols.items() if name in shared and isinstance(size, tuple)}) > 1:
        got = f"got different numbers of tensors for {', '.join(sorted(shared))}"
        problems.append((path, f"{got}, expected equal ones"))


def _is_of_members(size: object, *, is_star: bool) -> bool:
    """Return whether a value has a size, or for a star a list of dimensions, for each tensor of a list."""
    kind = tuple if is_star else int
    return isinstance(size, tuple) and bool(size) and all(isinstance(one, kind) for one in size)


def _plain(size: object) -> object:
    return [*map(_plain, size)] if isinstance(size, tuple) else size


def _check_counts(spec: OpSpec, case: Case, test: TestShape, path: Path, problems: Problems) -> None:
    """Check the numbers of tensors in the input lists without symbols of their tensors."""
    counted = {*case.parallel, *(binding.tensor for binding in case.members)}
    known = [t.name for t in spec.inputs if t.dynamic and t.name in case.shapes and t.name not in counted]
    for name in test.counts:
        if name not in known:
            problems.append(((*path, "counts", name, KEY), f"got {name!r}; {suggest(name, known)}"))
    problems += [
        (path, f"{name!r} is missing in 'counts', expected its number of tensors, as in 'counts: {{{name}: 2}}'")
        for name in known
        if name not in test.counts
    ]


def _check_test_attrs(attrs: Mapping[str, AttrSpec], shape: TestShape, path: Path, problems: Problems) -> None:
    for name, value in shape.attrs.items():
        if name not in attrs:
            problems.append(((*path, "attrs", name, KEY), f"unknown attribute {name!r}; {suggest(name, attrs)}"))
        else:
            check_value(attrs[name], value, (*path, "attrs", name), problems)
    if unset := [name for name, attr in attrs.items() if attr.default is None and name not in shape.attrs]:
        problems.append((path, f"{unset[0]!r} is missing among its attrs, expected a value: it has no default"))


def calls_of(spec: OpSpec) -> Iterator[tuple[Path, CallSpec]]:
    """Yield every call in the document section with its path."""
    for index, statement in enumerate(spec.document):
        for key, calls in (("at", statement.at), ("past", statement.past)):
            yield from ((("document", index, key, number), call) for number, call in enumerate(calls))


def call_as_test(spec: OpSpec, call: CallSpec) -> TestShape:
    """Return the test for a call: the first test of its case, with changes."""
    first = next((test for test in spec.tests.shapes if call.case in {None, test.case}), None)
    base = first or TestShape(case=call.case or spec.cases[0].name, symbols={})
    lists = {tensor.name for tensor in spec.host_lists}
    values = {name: elements for name, elements in call.values.items() if name in lists}
    changed = {key: getattr(base, key) | getattr(call, key) for key in ("symbols", "attrs")}
    return base.model_copy(update={**changed, "values": base.values | values})


def check_document(spec: OpSpec, program: Program, problems: Problems) -> None:
    """Check the statements of the CANN document: their reasons and their calls."""
    for index, statement in enumerate(spec.document):
        _check_statement(spec, statement, ("document", index), problems)
    for path, call in calls_of(spec):
        _check_call(spec, call, path, problems)
        check_test(spec, program, call_as_test(spec, call), path, problems)


def _check_statement(spec: OpSpec, statement: StatementSpec, path: Path, problems: Problems) -> None:
    support = statement.support
    if support != "implemented" and not statement.reason:
        problems.append((path, f"'reason' is missing, expected it with 'as: {support}'"))
    keys = _SHOWN_BY.get(support, ())
    parameters = {parameter.name for parameter in spec.parameters}
    if keys and statement.subject in parameters and not any(getattr(statement, key) for key in keys):
        problems.append((path, f"has no call, expected {' or '.join(map(repr, keys))} with 'as: {support}'"))
    if support == "implemented" and statement.past and not statement.at:
        problems.append((path, "'at' is missing, expected a call at the limit with 'past'"))


def _check_call(spec: OpSpec, call: CallSpec, path: Path, problems: Problems) -> None:
    is_refused = path[2] == "past"
    if (call.status != 0) != is_refused:
        expected = "the status of the refusal" if is_refused else "0: the call succeeds"
        problems.append(((*path, "status") if call.status else path, f"got status {call.status}, expected {expected}"))
    tensors = [tensor.name for tensor in spec.tensors]
    outputs = [output.name for output in spec.outputs]
    for key in ("shapes", "dtypes", "formats", "values", "gives", "absent"):
        known = outputs if key == "gives" else tensors
        for index, name in enumerate(getattr(call, key)):
            if name not in known:
                place = (index,) if key == "absent" else (name, KEY)
                problems.append(((*path, key, *place), f"unknown tensor {name!r}; {suggest(name, known)}"))
    functions = [function.function for function in spec.aclnn]
    if call.function is not None and call.function not in functions:
        problems.append(((*path, "function"), f"got {call.function!r}; {suggest(call.function, functions)}"))
