"""Prepare the page of an operator: text, tables and LaTeX of a spec."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.escape import Code, markdown, markdown_code
from opforge.codegen.expr.attr_kinds import AttrValue
from opforge.codegen.expr.expr_text import documented_dtype, expr_text
from opforge.codegen.expr.formula import latex_lines
from opforge.codegen.expr.program import Case, Constraint
from opforge.codegen.expr.tree import (
    CORES,
    Attribute,
    Comparison,
    DtypeLiteral,
    DtypeOf,
    Expr,
    Fold,
    HostList,
    Junction,
    Kind,
    Not,
    Present,
    walk,
)
from opforge.codegen.expr.value_text import alternatives, value_text
from opforge.codegen.spec.checker import accepted_dtypes
from opforge.codegen.spec.field_types import STATUSES
from opforge.codegen.spec.model import OpSpec
from opforge.codegen.spec.parts import AttrSpec, TensorSpec

from .example_view import example_of
from .facts import aclnn_signature
from .op_view import OpView

# Statuses that no constraint raises.
_OTHER_STATUSES = {
    361001: ("ACLNN_ERR_RUNTIME_ERROR", "a call of the runtime failed"),
    561003: ("ACLNN_ERR_INNER_FIND_KERNEL_ERROR", "there is no kernel for the product"),
    561101: ("ACLNN_ERR_INNER_CREATE_EXECUTOR", "no executor could be created"),
    561103: ("ACLNN_ERR_INNER_NULLPTR", "an internal call, for example a copy or a cast, returned no tensor"),
}


@dataclass(frozen=True)
class ProductGroup:
    """Products that accept the same dtypes, and the pairs of tensor and dtype that their constraints exclude."""

    products: tuple[str, ...]
    excluded: frozenset[tuple[str, str]]


class PageView:
    """The page of an operator; its name in templates is `page`."""

    def __init__(self, op: OpView, *, has_kernel: bool) -> None:
        spec = op.spec
        self._spec = spec
        self._groups = _product_groups(spec)
        self.formula = latex_lines(spec.formula, spec.formula_names)
        self.forward_formula = latex_lines(spec.forward_formula or "", spec.forward_names)
        states = [
            [device, name, _state(spec, name, device, has_kernel=has_kernel)]
            for name, product in PRODUCTS.items()
            for device in product.devices
        ]
        self.products = _table([["product series", "product", "state"], *states])
        self.has_stars = bool(spec.program.stars)
        sources = [part.source for part in _parts(spec) if isinstance(part, Fold)]
        self.has_steps = any(isinstance(source, HostList) and source.of_steps for source in sources)
        self.has_cores = Attribute(CORES, Kind.INT) in _parts(spec)
        self.has_kernel = has_kernel
        self.has_groups = len(self._groups) > 1
        self.has_chinese = any(parameter.chinese for parameter in spec.parameters)
        self.example = example_of(op)

    @property
    def parameters(self) -> Code:
        """List each parameter with its dtypes in aclnn functions, by group of products, and in kernels."""
        taken_on = [f"aclnn on {', '.join(group.products)}" for group in self._groups]
        rows = [["parameter", "kind", *(taken_on if len(taken_on) > 1 else ["aclnn"]), "graph", "description"]]
        rows += [self._tensor_row(tensor, "input") for tensor in self._spec.inputs]
        for attr in self._spec.attrs:
            presence = "required" if attr.default is None else f"default {value_text(attr.default)}"
            taken = [self._c_types(attr)] * len(self._groups)
            rows.append([attr.name, f"attribute, {presence}", *taken, attr.type, attr.description])
        rows += [self._tensor_row(tensor, "output") for tensor in self._spec.outputs]
        if self.has_chinese:
            terms = ["in Chinese", *(parameter.chinese or "-" for parameter in self._spec.parameters)]
            rows = [[*row, term] for row, term in zip(rows, terms, strict=True)]
        return _table(rows)

    def _c_types(self, attr: AttrSpec) -> str:
        """Return the C types of an attribute in aclnn functions."""
        params = [param for f in self._spec.aclnn for param in aclnn_signature(self._spec, f.function)]
        return ", ".join(dict.fromkeys(param.c_type for param in params if param.of == attr.name)) or "-"

    def _tensor_row(self, tensor: TensorSpec, kind: str) -> list[str]:
        kernel = f"as {tensor.dtype}" if tensor.dtype else _dtype_list(tensor.dtypes)
        kernel += ", known on the host" if tensor.host_values else ""
        taken = [self._taken(tensor, group) for group in self._groups]
        source = self._spec.in_place.get(tensor.name) if kind == "output" else None
        kind = f"list of {kind}s" if tensor.dynamic else kind
        kind += {"one": ", a scalar", "list": ", a list of scalars"}.get(tensor.scalar or "", "")
        kind += ", overwritten" * tensor.overwritten
        kind = f"output in the memory of {source.name}" if source else f"{'optional ' * tensor.optional}{kind}"
        return [tensor.name, kind, *taken, kernel, tensor.description]

    def _taken(self, tensor: TensorSpec, group: ProductGroup) -> str:
        """Return the dtypes that aclnn functions accept."""
        if tensor.host_values:
            return "list of INT64 on the host"
        accepted = accepted_dtypes(self._spec, tensor)
        if not accepted:
            return f"as {tensor.dtype}"
        words = [dtype for dtype in accepted if (tensor.name, dtype) not in group.excluded]
        casts = tensor.casts if tensor.dtype is None else {}
        return ", ".join(f"{documented_dtype(word)}{_cast_text(casts, word)}" for word in words)

    @property
    def casts(self) -> list[Code]:
        """Describe the casts of aclnn functions, one sentence each."""
        sentences = []
        for leader in self._spec.inputs:
            promoted = [tensor.name for tensor in self._spec.promoted(leader.name)]
            if len(promoted) > 1:
                sentences.append(
                    f"If the dtypes of {_listed(promoted)} differ, all of these tensors are cast to or from FLOAT."
                )
            for tensors, direction in ((self._spec.inputs, "to"), (self._spec.outputs, "from")):
                if alone := [t.name for t in tensors if t.dtype == leader.name and t.mix == "cast"]:
                    verb = "is" if len(alone) == 1 else "are"
                    sentences.append(f"{_listed(alone)} {verb} cast {direction} the resulting dtype of {leader.name}.")
        return [markdown(sentence) for sentence in sentences]

    @property
    def formats(self) -> Code:
        """Describe the accepted storage formats."""
        if not any(constraint.rule == "formats" for constraint in self._spec.constraints):
            return Code("Storage formats are not checked. Elements are read in the order of the dimensions.")
        by_formats: dict[str, list[str]] = {}
        for tensor in self._spec.tensors:
            if not tensor.host_values:
                by_formats.setdefault(alternatives(tensor.formats), []).append(tensor.name)
        parts = [f"{formats} for {_listed(tensors)}" for formats, tensors in by_formats.items()]
        return markdown(f"Storage formats: {'; '.join(parts)}. Elements are read in the order of the dimensions.")

    @property
    def names(self) -> Code:
        """List all names of each parameter."""
        targets = self._spec.torch.targets
        nodes = ["ONNX"] if self._spec.outputs else []
        heads = ["parameter", "graph IR", *nodes, *(f.function for f in self._spec.aclnn), *(t.target for t in targets)]
        places: list[tuple[str, TensorSpec | AttrSpec]] = [
            *((f"input {i}", tensor) for i, tensor in enumerate(self._spec.inputs)),
            *(("attribute", attr) for attr in self._spec.attrs),
            *((f"output {i}", tensor) for i, tensor in enumerate(self._spec.outputs)),
        ]
        rows = [heads]
        shared = {output: source.name for output, source in self._spec.in_place.items()}
        for place, parameter in places:
            row = [parameter.name, parameter.ir_name, *[place][: len(nodes)]]
            for function in self._spec.aclnn:
                names = {of: name for name, of in function.params.items()}
                row.append(names.get(shared.get(parameter.name, parameter.name)) or _in_place(parameter, None))
            for target in targets:
                names = {of: argument for argument, of in target.args.items()}
                row.append(names.get(parameter.name) or _in_place(parameter, target.attrs.get(parameter.name)))
            rows.append(row)
        return _table(rows)

    @property
    def torch(self) -> Code:
        """List the PyTorch functions that are mapped to the operator."""
        return Code(_listed([markdown_code(target.target) for target in self._spec.torch.targets]))

    @property
    def shapes(self) -> Code:
        """List each tensor with its shape in each case."""
        cases = self._spec.program.cases
        heads = [f"{case.name}: {expr_text(case.when)}" for case in cases] if len(cases) > 1 else ["shape"]
        rows = [[tensor.name, *(_shape(case, tensor.name) for case in cases)] for tensor in self._spec.tensors]
        return _table([["tensor", *heads], *rows])

    @property
    def constraints(self) -> Code:
        """List label, status and sentence of each constraint."""
        rows = [[c.label, str(c.status), self._sentence(c)] for c in self._spec.program.constraints]
        return _table([["label", "status", "constraint"], *rows])

    def _sentence(self, constraint: Constraint) -> Code:
        required = [tensor.name for tensor in self._spec.tensors if not tensor.optional]
        in_case = ", in the first case whose condition is true" if len(self._spec.cases) > 1 else ""
        rules = {
            "required": f"{_listed(required) or 'required parameters'} must not be null",
            "dtypes": "the dtypes are those of the table of parameters",
            "formats": "the storage formats are those below the table of parameters",
            "ranks": f"the numbers of dimensions are those of the table of shapes{in_case}",
            "shapes": "the dimensions are those of the table of shapes",
        }
        if constraint.rule:
            return markdown(rules[constraint.rule])
        where = f"on {', '.join(constraint.products)}: " if constraint.products else ""
        where += f"case {constraint.case}: " if constraint.case else ""
        expected = constraint.expected
        for name, value in constraint.blanks.items():
            expected = expected.replace(f"{{{name}}}", name if name in self._spec.definitions else expr_text(value))
        sentence = markdown(f"{where}{constraint.subject}: {expected}")
        return Code(f"{sentence}, {markdown_code(expr_text(constraint.check))}")

    @property
    def definitions(self) -> list[Code]:
        """List the definitions that the constraints name."""
        named = {name: value for c in self._spec.program.constraints for name, value in c.blanks.items()}
        shown = {name: expr_text(value) for name, value in named.items() if name in self._spec.definitions}
        return [Code(f"{markdown_code(name)}: {markdown(text)}") for name, text in shown.items()]

    @property
    def differences(self) -> Code:
        """List the statements of the CANN document that the operator does not satisfy."""
        here = {"wider": "accepts more", "narrower": "accepts less", "different": "differs"}
        rows = [[s.subject, s.says, here[s.support], s.reason] for s in self._spec.document if s.support in here]
        return _table([["subject", "CANN document", "this operator", "reason"], *rows])

    @property
    def implemented(self) -> list[Code]:
        """List the implemented statements of the CANN document, by subject."""
        by_subject: dict[str, list[str]] = {}
        for statement in self._spec.document:
            if statement.support == "implemented":
                by_subject.setdefault(statement.subject, []).append(statement.says)
        return [markdown(f"{subject}: {' '.join(says)}") for subject, says in by_subject.items()]

    @property
    def statuses(self) -> Code:
        """List number, name and reasons of each status of a call."""
        labels = [(c.status, c.label) for c in self._spec.program.constraints]
        reasons = {status: [label for of, label in labels if of == status] for status in STATUSES}
        reasons[161001].insert(0, "workspaceSize or executor is null (checked first)")
        reasons[561002].append("a size exceeds a limit of the tiling plan; the message contains the limit")
        rows = [(0, "ACLNN_SUCCESS", "")]
        rows += [(status, STATUSES[status], ", ".join(reasons[status])) for status in STATUSES]
        rows += [(status, name, reason) for status, (name, reason) in _OTHER_STATUSES.items()]
        return _table([["status", "name", "reasons"], *([str(status), *words] for status, *words in sorted(rows))])


def _state(spec: OpSpec, product: str, device: str, *, has_kernel: bool) -> str:
    if product not in spec.products:
        return "not supported"
    if product not in spec.built_products:
        return "documented, not built: the call checks the arguments and returns 561003"
    if not has_kernel:
        return "no kernel in this version: the call checks the arguments and fails"
    is_undocumented = device in spec.undocumented_devices
    return "kernel; not in the CANN document" if is_undocumented else "kernel"


def _product_groups(spec: OpSpec) -> list[ProductGroup]:
    """Group the products of a spec by the dtypes that their constraints exclude."""
    groups: dict[frozenset[tuple[str, str]], list[str]] = {}
    for product in spec.products:
        checks = [c.check for c in spec.program.constraints if product in c.products]
        excluded = frozenset(pair for check in checks for pair in _excluded(check))
        groups.setdefault(excluded, []).append(product)
    return [ProductGroup(tuple(products), excluded) for excluded, products in groups.items()]


def _excluded(check: Expr) -> Iterator[tuple[str, str]]:
    """Yield the tensor and dtype that a condition excludes, if any."""
    match check:
        case Junction(operator="or", operands=(Not(operand=Present()), condition)):
            yield from _excluded(condition)
        case Comparison(operator="!=", left=DtypeOf(tensor=tensor), right=DtypeLiteral(name=name)):
            yield tensor, name
        case _:
            pass


def _parts(spec: OpSpec) -> Iterator[Expr]:
    for constraint in spec.program.constraints:
        yield from walk(constraint.check)


def _table(rows: Sequence[Sequence[str]]) -> Code:
    """Format a Markdown table; the first row is the header."""
    lines = [
        "|".join(["", *(f" {cell if isinstance(cell, Code) else markdown(cell)} " for cell in row), ""]) for row in rows
    ]
    return Code("\n".join([lines[0], f"|{'---|' * len(rows[0])}", *lines[1:]]))


def _dtype_list(dtypes: Sequence[str]) -> str:
    return ", ".join(map(documented_dtype, dtypes))


def _cast_text(casts: Mapping[str, str], dtype: str) -> str:
    return f" (as {documented_dtype(casts[dtype])})" if dtype in casts else ""


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def _in_place(parameter: TensorSpec | AttrSpec, fixed: AttrValue | None) -> str:
    """Return the value that replaces a parameter without a name."""
    if isinstance(parameter, AttrSpec):
        return f"- ({value_text(parameter.default if fixed is None else fixed)})"
    return "- (null)" if parameter.optional else "-"


def _shape(case: Case, tensor: str) -> str:
    if tensor not in case.shapes:
        return "null"
    dims = [f"*{dim.star}" if dim.star else expr_text(dim.expression) for dim in case.shapes[tensor]]
    return f"[{', '.join(dims)}]"
