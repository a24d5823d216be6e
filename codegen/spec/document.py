"""Derive the calls in the statements of the CANN document from the tests of a spec, and check the statements."""

from __future__ import annotations

from collections.abc import Iterator

from opforge.codegen.data.names import suggest
from opforge.codegen.expr.program import Program

from .model import OpSpec
from .section_parts import CallSpec, StatementSpec, TestShape
from .validate_uses import Problems, check_test
from .yaml_nodes import KEY, Path

# The calls for a statement about a parameter.
_SHOWN_BY = {"wider": ("at",), "narrower": ("past",), "different": ("at", "past")}


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
