"""Check a spec beyond the types of its fields: unique names, sizes within limits, existing names."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from opforge.codegen.data.dtypes import DTYPES
from opforge.codegen.data.names import lower_camel, own_word_problem, snake_case, suggest
from opforge.codegen.expr.formula import FormulaError, latex_lines

from .field_types import RULE_STATUSES, SCALARS, STATUSES, TILING_DATA_BYTES
from .model import MissingSectionError, OpSpec
from .parts import AttrSpec, ConstraintSpec, FunctionSpec, TensorSpec, TilingSpec
from .shared_plans import SHARED_PLANS, SharedPlan
from .validate_tensors import check_in_place, check_lists, check_overwritten
from .validate_uses import (
    Problems,
    check_attrs,
    check_combinations,
    check_declared,
    check_document,
    check_names_elsewhere,
    check_tests,
    check_unique,
    check_values,
)
from .yaml_nodes import KEY, Path


def problems_of(spec: OpSpec) -> Problems:
    """Return all problems of a spec of the right form, as (path, message).

    For a `PartialSpec`, a check ends if it reads a missing section.
    """
    problems: Problems = []
    for check in _CHECKS:
        with suppress(MissingSectionError):
            check(spec, problems)
    return problems


def _check_names(spec: OpSpec, problems: Problems) -> None:
    groups: list[tuple[str, Sequence[TensorSpec | AttrSpec]]]
    groups = [("inputs", spec.inputs), ("attrs", spec.attrs), ("outputs", spec.outputs)]
    parameters = [(section, index, p) for section, group in groups for index, p in enumerate(group)]
    check_unique(problems, "the name", [((s, i, "name"), lower_camel(p.name)) for s, i, p in parameters])
    copies = {f"{lower_camel(output.name)}Dense" for output in spec.outputs}
    problems += [
        ((section, index, "name"), own_word_problem(p.name, f"{p.name}_value"))
        for section, index, p in parameters
        if lower_camel(p.name) in copies
    ]
    check_unique(problems, "the IR name", [((s, i, "ir"), p.ir_name) for s, i, p in parameters if p.ir])
    check_unique(problems, "the case", [(("cases", i, "name"), case.name) for i, case in enumerate(spec.cases)])
    check_unique(problems, "the product", [(("products", i), product) for i, product in enumerate(spec.products)])
    built = [(("products", spec.products.index(product)), product) for product in spec.built_products]
    check_unique(
        problems, "the configuration", [*built, *((("configs", i), name) for i, name in enumerate(spec.configs))]
    )
    for index, output in enumerate(spec.outputs):
        if output.dtype is None and len(output.dtypes) > 1 and not spec.combinations:
            more = "'dtype: <required input>' to follow an input, or the key 'combinations'"
            message = f"got {len(output.dtypes)} dtypes, expected one, {more}"
            problems.append((("outputs", index, "dtypes"), message))


def _check_formula(spec: OpSpec, problems: Problems) -> None:
    formulas = [
        ("formula", spec.formula, spec.formula_names),
        ("forward_formula", spec.forward_formula, spec.forward_names),
    ]
    for key, text, names in formulas:
        if not text:
            continue
        try:
            latex_lines(text, names)
        except FormulaError as error:
            problems.append(((key,), str(error)))


def _check_dtypes(spec: OpSpec, problems: Problems) -> None:
    own = {tensor.name for tensor in spec.inputs if not tensor.optional and tensor.dtype is None}
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            path: Path = (section, index)
            if tensor.dtype is None and not tensor.dtypes:
                problems.append((path, "has no dtypes, expected 'dtypes: [..]' or 'dtype: <required input>'"))
            elif tensor.dtype is not None and tensor.dtypes:
                problems.append(((*path, "dtype"), "got both 'dtypes' and 'dtype', expected one of them"))
            elif tensor.dtype is not None and tensor.dtype not in own - {tensor.name}:
                hint = suggest(tensor.dtype, own - {tensor.name})
                problems.append(((*path, "dtype"), f"got {tensor.dtype!r}, not a required input with dtypes; {hint}"))
            for position, dtype in enumerate(tensor.dtypes):
                if dtype in tensor.dtypes[:position]:
                    problems.append(((*path, "dtypes", position), f"got the dtype {dtype!r} again"))


def _check_casts(spec: OpSpec, problems: Problems) -> None:
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            path: Path = (section, index)
            if tensor.casts and (tensor.dtype is not None or section == "outputs"):
                problems.append(((*path, "casts"), "got casts, expected them only with the 'dtypes' of an input"))
            for wide, kernel in tensor.casts.items():
                place: Path = (*path, "casts", wide)
                if tensor.dtypes and kernel not in tensor.dtypes:
                    problems.append((place, f"got {kernel!r}; {suggest(kernel, tensor.dtypes)}"))
                if wide in tensor.dtypes:
                    problems.append(((*place, KEY), f"got {wide!r}, which is one of 'dtypes' already"))
            if tensor.mix is not None and tensor.dtype is None:
                problems.append(((*path, "mix"), f"got {tensor.mix!r} without 'dtype: <required input>'"))
            leader = next((t for t in spec.inputs if t.name == tensor.dtype), None)
            if tensor.mix == "promote" and leader is not None and "float32" not in leader.dtypes:
                message = f"got 'promote', but {leader.name} has no float32 to which all could be cast"
                problems.append(((*path, "mix"), message))


def _check_host_values(spec: OpSpec, problems: Problems) -> None:
    for section, group in (("inputs", spec.inputs), ("outputs", spec.outputs)):
        for index, tensor in enumerate(group):
            path: Path = (section, index, "host_values")
            if tensor.host_values and section == "outputs":
                problems.append((path, "got true, expected false: an output has no values before the call"))
            elif tensor.host_values and not {"int64"} <= set(tensor.dtypes) <= {"int32", "int64"}:
                expected = "expected 'dtypes: [int64]' or 'dtypes: [int32, int64]' with it: the host passes integers"
                problems.append((path, f"got true, {expected}"))
            if tensor.value_depend and section == "outputs":
                problems.append(((section, index, "value_depend"), "got this key, expected none with an output"))
            elif tensor.value_depend is True and tensor.host_values:
                message = "got true, expected 'optional', 'required' or no key with 'host_values: true'"
                problems.append(((section, index, "value_depend"), message))


def _check_constraints(spec: OpSpec, problems: Problems) -> None:
    labels = [(("constraints", i, "label"), constraint.label) for i, constraint in enumerate(spec.constraints)]
    check_unique(problems, "the label", labels)
    for number, (where, label) in enumerate(labels, 1):
        if label != f"C{number}" and label not in {other for _, other in labels[: number - 1]}:
            problems.append((where, f"got {label!r}, expected 'C{number}': labels count the constraints from C1 on"))
            break
    cases = [case.name for case in spec.cases]
    for index, constraint in enumerate(spec.constraints):
        path: Path = ("constraints", index)
        _check_status(constraint, (*path, "status"), problems)
        if (constraint.rule is None) == (constraint.check is None):
            problems.append((path, "expected either 'rule' or 'check'"))
        for product in constraint.products:
            if product not in spec.products:
                place: Path = (*path, "products", constraint.products.index(product))
                problems.append((place, f"got {product!r}; {suggest(product, spec.products)}"))
        if constraint.rule is None:
            _check_message(spec, constraint, path, problems)
        else:
            _check_rule(constraint, path, problems)
        if constraint.case is not None and constraint.case not in cases:
            problems.append(((*path, "case"), f"unknown case {constraint.case!r}; {suggest(constraint.case, cases)}"))


def _check_status(constraint: ConstraintSpec, path: Path, problems: Problems) -> None:
    expected = ""
    if constraint.status not in STATUSES:
        expected = f"one of {', '.join(map(str, STATUSES))}"
    elif constraint.rule is not None and constraint.status != RULE_STATUSES[constraint.rule]:
        expected = f"{RULE_STATUSES[constraint.rule]}, the status of the rule {constraint.rule!r}"
    if expected:
        problems.append((path, f"got {constraint.status}, expected {expected}"))


def _check_rule(constraint: ConstraintSpec, path: Path, problems: Problems) -> None:
    """Check that a built-in rule has no message of the spec, and is not limited to products or cases."""
    if constraint.products:
        problems.append(((*path, "products"), "got products with 'rule', expected them with a 'check'"))
    for key in ("subject", "expected", "case"):
        if (value := getattr(constraint, key)) is not None:
            problems.append(((*path, key), f"got {value!r}, expected no {key!r} with 'rule'"))


def _check_message(spec: OpSpec, constraint: ConstraintSpec, path: Path, problems: Problems) -> None:
    """Check that a constraint has all parts of its message."""
    problems += [
        (path, f"{key!r} is missing, a 'check' needs it for its message")
        for key in ("subject", "expected")
        if getattr(constraint, key) is None
    ]
    parameters = [tensor.name for tensor in spec.tensors] + [attr.name for attr in spec.attrs]
    if constraint.subject is not None and constraint.subject not in parameters:
        hint = suggest(constraint.subject, parameters)
        problems.append(((*path, "subject"), f"unknown parameter {constraint.subject!r}; {hint}"))


def _check_functions(spec: OpSpec, problems: Problems) -> None:
    functions = [(("aclnn", i, "function"), snake_case(f.function)) for i, f in enumerate(spec.aclnn)]
    check_unique(problems, "the function", functions)
    parameters = [parameter.name for parameter in (*spec.tensors, *spec.attrs)]
    dense = {f"{lower_camel(tensor.name)}Dense" for tensor in spec.tensors}
    copies = dense | {f"{lower_camel(output.name)}Copy" for output in spec.outputs}
    shared = spec.in_place
    needed = [t.name for t in spec.tensors if not (t.optional or t.name in shared)]
    needed += [a.name for a in spec.attrs if a.default is None]
    for index, function in enumerate(spec.aclnn):
        path: Path = ("aclnn", index, "params")
        used: list[str] = []
        for name, of in function.params.items():
            if of not in parameters:
                problems.append(((*path, name), f"unknown parameter {of!r}; {suggest(of, parameters)}"))
            elif of in used:
                problems.append(((*path, name), f"got {of!r} again, expected each parameter once"))
            if of in shared:
                expected = f"expected {shared[of].name!r} only: the output is in its memory"
                problems.append(((*path, name), f"got {of!r}, {expected}"))
            if name in copies:
                problems.append(((*path, name, KEY), own_word_problem(name, f"{name}Value")))
            used.append(of)
        problems.extend(
            (path, f"{name!r} is missing, expected a parameter for it") for name in needed if name not in used
        )
        _check_c_types(spec, function, ("aclnn", index, "types"), problems)


def _check_c_types(spec: OpSpec, function: FunctionSpec, path: Path, problems: Problems) -> None:
    allowed: dict[str, tuple[str, ...]] = {attr.name: attr.kind.c_types for attr in spec.attrs}
    allowed |= {tensor.name: tensor.c_types for tensor in spec.tensors}
    for name, c_type in function.types.items():
        place: Path = (*path, name, KEY)
        of = function.params.get(name)
        if of is None:
            problems.append((place, f"unknown parameter {name!r}; {suggest(name, function.params)}"))
        elif of in allowed and c_type not in allowed[of]:
            problems.append((place, f"got {c_type!r}, expected one of {', '.join(allowed[of])}"))


def _check_tiling(spec: OpSpec, problems: Problems) -> None:
    _check_shared_plan(spec, problems)
    _check_constants(spec.tiling, problems)
    filled = len(spec.tiling.fields) - len(spec.tiling.data)
    fields = [(("tiling", "data", i - filled, "name"), lower_camel(f.name)) for i, f in enumerate(spec.tiling.fields)]
    keys = [(("tiling", "keys", i, "name"), snake_case(key.name)) for i, key in enumerate(spec.tiling.keys)]
    constants = [(("tiling", "constants", i, "name"), one.name) for i, one in enumerate(spec.tiling.constants)]
    numbers = [(("tiling", "keys", i, "key"), str(key.key)) for i, key in enumerate(spec.tiling.keys)]
    for what, entries in (
        ("the field", fields),
        ("the key", keys),
        ("the key number", numbers),
        ("the constant", constants),
    ):
        seen: set[str] = set()
        for path, name in entries:
            if name in seen:
                problems.append((path, f"got {what} {name!r} again, expected each once"))
            seen.add(name)
    if tiling_bytes(spec) > TILING_DATA_BYTES:
        got = f"got {tiling_bytes(spec)} bytes, expected at most {TILING_DATA_BYTES}"
        problems.append((("tiling", "data"), f"{got}; longer lists reach the kernel as an input"))
    columns = {tensor.name for tensor in spec.tensors if not tensor.optional}
    optional = {tensor.name for tensor in spec.tensors} - columns
    for index, key in enumerate(spec.tiling.keys):
        for position, item in enumerate(key.template):
            if isinstance(item, str) and item not in columns and item not in DTYPES:
                place: Path = ("tiling", "keys", index, "template", position)
                why = " (the dtype of an optional input selects no kernel)" if item in optional else ""
                problems.append((place, f"got {item!r}{why}; {suggest(item, columns | set(DTYPES))}"))


def _check_shared_plan(spec: OpSpec, problems: Problems) -> None:
    tiling, shared_plan = spec.tiling, spec.tiling.shared_plan
    for index, field in enumerate(tiling.data):
        if field.count is not None and (shared_plan or field.value is not None):
            problems.append((("tiling", "data", index, "count"), "got an array, expected one value"))
    _check_conditions(tiling, problems)
    if tiling.structure and (tiling.data or shared_plan):
        problems.append(
            (("tiling", "structure"), "is allowed only with an own plan and without 'data'; omit one of them")
        )
    if shared_plan is None:
        _check_own_plan(tiling, problems)
        return
    _check_work(tiling, shared_plan, problems)
    if not tiling.keys:
        problems.append(
            (("tiling",), "got no keys, expected at least one, as in '{name: Plain, key: 1, template: [x]}'")
        )
    if shared_plan.needs_barrier and not tiling.task_type.startswith("MIX_"):
        message = (
            f"got {tiling.task_type!r}, expected a MIX type for the barrier of {shared_plan.name}, as in MIX_AIV_1_0"
        )
        problems.append((("tiling", "task_type") if "task_type" in tiling.model_fields_set else ("tiling",), message))
    for index, field in enumerate(tiling.data):
        if field.value is None:
            problems.append((("tiling", "data", index), "'value' is missing, a shared plan fills its own fields only"))


def _check_constants(tiling: TilingSpec, problems: Problems) -> None:
    if tiling.shared_plan and tiling.constants:
        problems.append((("tiling", "constants"), "is allowed only with an own plan: shared plans do not read them"))
    for index, constant in enumerate(tiling.constants):
        place: Path = ("tiling", "constants", index)
        if constant.value not in constant.choices:
            choices = ", ".join(map(str, constant.choices))
            problems.append(((*place, "value"), f"got {constant.value}, expected one of the choices {choices}"))
        if len(set(constant.choices)) < len(constant.choices):
            problems.append(((*place, "choices"), "got a value twice, expected different values"))


def _check_own_plan(tiling: TilingSpec, problems: Problems) -> None:
    """Check a hand-written plan: no sizes of a shared plan; its keys are compared with their conditions."""
    if tiling.work:
        message = f"is allowed only with a shared plan, expected 'plan: ..' with one of {', '.join(SHARED_PLANS)}"
        problems.append((("tiling", "work"), message))


def _check_work(tiling: TilingSpec, shared_plan: SharedPlan, problems: Problems) -> None:
    """Check the sizes of a shared plan."""
    known = {quantity.name for quantity in shared_plan.work}
    for name in tiling.work:
        if name not in known:
            problems.append((("tiling", "work", name, KEY), f"unknown size {name!r}; {suggest(name, known)}"))
    for quantity in shared_plan.work:
        least = 0 if quantity.is_optional else 1
        given = str(tiling.work.get(quantity.name, least))
        if quantity.name not in tiling.work and not quantity.is_optional:
            problems.append((("tiling",), f"work.{quantity.name} is missing, expected {quantity.meaning}"))
        elif re.fullmatch(r"-?\d{1,18}", given) and int(given) < least:
            place = ("tiling", "work", quantity.name)
            problems.append((place, f"got {given}, expected at least {least}: {quantity.meaning}"))


def _check_conditions(tiling: TilingSpec, problems: Problems) -> None:
    """Check the conditions of keys: one for each key but the last; none if an own entry function tests the keys."""
    if tiling.own_entry:
        for index, key in enumerate(tiling.keys):
            if key.when is not None or key.template:
                message = "got 'when' or 'template', expected none of them with 'own_entry: true'"
                problems.append((("tiling", "keys", index), message))
        return
    for index, key in enumerate(tiling.keys[:-1]):
        if key.when is None:
            message = "'when' is missing, expected the condition that selects this key; only the last key has none"
            problems.append((("tiling", "keys", index), message))
    if tiling.keys and tiling.keys[-1].when is not None:
        place: Path = ("tiling", "keys", len(tiling.keys) - 1, "when")
        problems.append(
            (place, "got a condition on the last key, expected none: it is selected for all remaining calls")
        )


def tiling_layout(spec: OpSpec) -> list[tuple[str, int, int]]:
    """Return the member name, the offset and the size in bytes of each field of the tiling data, naturally aligned."""
    layout = []
    offset = 0
    for field in spec.tiling.fields:
        unit = SCALARS[field.type].bytes
        offset = (offset + unit - 1) // unit * unit
        layout.append((lower_camel(field.name), offset, unit * (field.count or 1)))
        offset += unit * (field.count or 1)
    return layout


def tiling_bytes(spec: OpSpec) -> int:
    """Return the size of the tiling data struct in bytes; an empty struct has one."""
    layout = tiling_layout(spec)
    if not layout:
        return 1
    _, offset, size = layout[-1]
    unit = max(SCALARS[field.type].bytes for field in spec.tiling.fields)
    return (offset + size + unit - 1) // unit * unit


def _check_expressions(spec: OpSpec, problems: Problems) -> None:
    if spec.declared_only:
        return
    program, of_expressions = spec.compilation
    if not of_expressions:
        check_tests(spec, program, problems)
        check_document(spec, program, problems)
    problems += of_expressions


_CHECKS: tuple[Callable[[OpSpec, Problems], None], ...] = (
    _check_names,
    check_declared,
    check_in_place,
    check_overwritten,
    check_lists,
    _check_formula,
    _check_dtypes,
    check_combinations,
    _check_casts,
    _check_host_values,
    check_attrs,
    _check_constraints,
    _check_functions,
    _check_tiling,
    check_names_elsewhere,
    check_values,
    _check_expressions,
)
