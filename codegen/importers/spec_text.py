"""Write a draft as the text of a spec, with a comment for each statement that the spec does not contain."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import dataclass, field

from opforge.codegen.data.dtypes import FORMATS
from opforge.codegen.data.names import (
    camel_problem,
    ir_name_problem,
    lower_camel,
    snake_case,
    tensor_ir_problem,
)
from opforge.codegen.data.products import BUILT_PRODUCTS, DEFAULT_SOC, PRODUCTS, SOCS
from opforge.codegen.expr.attr_kinds import ATTR_KINDS
from opforge.codegen.printing import escaped
from opforge.codegen.spec.parts import TilingSpec

from .draft import (
    DYNAMIC,
    MOST_NAME,
    NODE,
    OPTIONAL,
    REQUIRED,
    AttrDraft,
    Note,
    OperatorDraft,
    Shape,
    TensorDraft,
    free_name,
    key_of,
    spec_names,
)
from .dtype_keys import DtypeKeys
from .sample_calls import TOLERANCES, example, sizes
from .tiling.data import fitting_fields

_DEFAULT_FORMATS = {"ND", ""}
_MOST_TEXT, _MOST_FORMULA, _MOST_NOTES = 300, 900, 1000
_USUAL_PRODUCT = SOCS[DEFAULT_SOC].dir


@dataclass
class SpecDraft:
    """The text of a spec, and the statements of the source that it does not contain."""

    text: str = ""
    notes: list[Note] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)


def spec_of(draft: OperatorDraft) -> SpecDraft:
    """Write a draft as a spec."""
    return _Writer(draft.without_repeats()).spec()


class _Writer:
    """Writes one spec."""

    def __init__(self, draft: OperatorDraft) -> None:
        self._draft = draft
        self._names = spec_names(draft)
        self._notes = list(draft.notes)
        self._attrs = [attr for attr in draft.attrs if self._is_known_attr(attr)]

    def _note(self, line: int, text: str) -> None:
        self._notes.append(Note(line, text))

    def _name(self, parameter: TensorDraft | AttrDraft) -> str:
        return self._names[key_of(self._draft, parameter)]

    def _is_known_attr(self, attr: AttrDraft) -> bool:
        if ATTR_KINDS[attr.type].c_types or self._draft.is_declared:
            return True
        self._note(attr.line, f"attribute {attr.name}: kernels have no attributes of the type {attr.type}")
        return False

    def _tensor(self, tensor: TensorDraft, dtypes: str) -> str:
        parts = [f"name: {self._name(tensor)}"]
        parts += self._ir(tensor)
        if tensor.option != REQUIRED:
            parts.append(f"{tensor.option}: true")
        parts += [f"scalar: {tensor.scalar}"] if tensor.scalar else []
        parts += ["overwritten: true"] if tensor.is_overwritten else []
        if self._is_counted(tensor):
            parts.append("count: 1")
            self._note(tensor.line, f"tensor {tensor.name}: replace the number of tensors, 1 (key 'count')")
        parts.append(dtypes)
        formats = list(dict.fromkeys(tensor.formats))
        if set(formats) - _DEFAULT_FORMATS:
            known = [name for name in formats if name in FORMATS]
            parts += [f"formats: [{', '.join(known)}]"] if known else []
            if len(formats) > 1 or len(known) != len(formats):
                self._note(
                    tensor.line,
                    f"tensor {tensor.name}: a spec has no format for each dtype combination ({', '.join(formats)})",
                )
        if tensor.value_depend and tensor.option == DYNAMIC:
            self._note(tensor.line, f"tensor {tensor.name}: a spec has no list of tensors whose values tiling reads")
        elif tensor.value_depend and not tensor.scalar:
            is_list = dtypes in {"dtypes: [int64]", "dtypes: [int32, int64]", "dtypes: [int64, int32]"}
            parts += ["host_values: true"] if is_list else []
            if tensor.value_depend != tensor.option:
                parts.append(f"value_depend: {tensor.value_depend}")
            elif not is_list:
                parts.append("value_depend: true")
        parts += [f"description: {_quoted(tensor.description)}"] if tensor.description else []
        return f"  - {{{', '.join(parts)}}}"

    def _attr(self, attr: AttrDraft) -> str:
        parts = [f"name: {self._name(attr)}"]
        parts += self._ir(attr)
        parts.append(f"type: {attr.type}")
        if refusal := attr.default_problem:
            self._note(attr.line, f"attribute {attr.name}: a spec cannot have its default, {refusal}")
        elif attr.default is not None:
            parts.append(f"default: {json.dumps(attr.default)}")
        parts += [f"description: {_quoted(attr.description)}"] if attr.description else []
        return f"  - {{{', '.join(parts)}}}"

    def spec(self) -> SpecDraft:
        """Write the spec; the comments are at the start."""
        draft = self._draft
        products = [name for name in draft.products if name in PRODUCTS]
        configs = [name for name in draft.products if name not in BUILT_PRODUCTS or not _is_built(name)]
        if draft.is_declared:
            configs = [name for name in draft.products if name not in PRODUCTS]
        if not products:
            products.append(_USUAL_PRODUCT)
            known = "product of opforge" if draft.products else "supported product"
            self._note(0, f"the source names no {known}; the draft has {_USUAL_PRODUCT}")
        elif len(configs) == len(draft.products) and not draft.is_declared:
            self._note(
                0, f"no product of the source has kernels of opforge; add {_USUAL_PRODUCT} to run a kernel on the twin"
            )
        is_declared = draft.is_declared
        if draft.inputs and not (is_declared or draft.outputs or any(t.is_overwritten for t in draft.inputs)):
            self._note(0, "no outputs: write 'overwritten: true' for each input that the kernel overwrites")
        names = [self._name(tensor) for tensor in draft.tensors]
        dtypes = DtypeKeys(draft, names, self._note)
        if is_declared and draft.function:
            self._note(0, f"function {draft.function}: a spec with 'declared_only: true' has no functions")
        if is_declared:
            self._note(0, f"the spec only declares the operator: {draft.declared_reason}")
        keys = iter(dtypes.keys)
        inputs = [self._tensor(tensor, next(keys)) for tensor in draft.inputs]
        outputs = [self._tensor(tensor, next(keys)) for tensor in draft.outputs]
        attrs = [self._attr(attr) for attr in self._attrs]
        body = [
            f"op_type: {draft.op_type}",
            f"summary: {_quoted(draft.summary or f'{draft.op_type}, imported from {draft.kind}.')}",
            "declared_only: true" if is_declared else f"formula: {json.dumps(self._formula())}",
            "",
            f"products: [{', '.join(products)}]",
            *([f"configs: [{', '.join(configs)}]"] if configs else []),
            "",
            *(["inputs:", *inputs] if inputs else ["inputs: []"]),
            *(["attrs:", *attrs] if attrs else []),
            *(["outputs:", *outputs] if outputs else ["outputs: []"]),
            *dtypes.combinations,
            "",
        ]
        if not is_declared:
            aliases = ", ".join(draft.aliases)
            body += ["onnx:", f"  aliases: [{aliases}]", ""] if aliases else []
            body += [*self._cases(), "", *self._constraints(), "", *self._functions(), *self._tiling(), *self._tests()]
        text = "\n".join([*self._comments(), *body]).rstrip() + "\n"
        return SpecDraft(text, self._notes, self._names)

    def _formula(self) -> str:
        """Return a function of all inputs, else of all attributes; for a long line, of the first one."""
        names = [self._name(tensor) for tensor in self._draft.inputs] or [self._name(attr) for attr in self._attrs]
        results = [self._names[key_of(self._draft, result)] for result in self._draft.results]
        name = f"{snake_case(self._draft.op_type)}_result"
        for arguments in (names, names[:1]):
            call = f"{name}({', '.join(arguments)})"
            text = "; ".join(f"{result} = {call}" for result in results) or call
            if len(text) < _MOST_FORMULA:
                break
        return text

    def _ir(self, parameter: TensorDraft | AttrDraft) -> list[str]:
        """Return the key `ir`, if the name in the graph IR differs."""
        if self._name(parameter) == parameter.name:
            return []
        judge = tensor_ir_problem if isinstance(parameter, TensorDraft) else ir_name_problem
        if refusal := judge(parameter.name):
            self._note(parameter.line, f"name {parameter.name} in the graph IR: {refusal}")
            return []
        # YAML reads these words as other values.
        is_word = parameter.name.lower() in {"null", "true", "false"}
        return [f"ir: {json.dumps(parameter.name) if is_word else parameter.name}"]

    def _comments(self) -> list[str]:
        place, _, _ = self._draft.place.rpartition(":")
        lines = [f"# Draft of {self._draft.op_type} from {_cut(self._draft.place)} ({self._draft.kind})."]
        lines += [
            "# A spec can only declare this operator: CANN and your code infer shapes, plan and compute."
            if self._draft.is_declared
            else "# Complete it: formula, shapes (cases), constraints, tiling, tests."
        ]
        if self._notes:
            lines.append("# Statements of the source that are not in this spec:")
        for note in sorted(self._notes, key=lambda note: note.line)[:_MOST_NOTES]:
            where = f"line {note.line}: " if note.line and place else ""
            lines.append(f"# - {where}{_cut(note.text)}")
        if len(self._notes) > _MOST_NOTES:
            lines.append(f"# - {len(self._notes) - _MOST_NOTES} more statements")
        return lines

    def _letters(self, number: int) -> tuple[str, bool]:
        """Return the letters of the first dimensions of an input, and whether it can have more dimensions."""
        ranks = self._draft.inputs[number].ranks
        if ranks and ranks[0] == ranks[1]:
            return "abcdefgh"[: ranks[0]], False
        used = (dim for _, dims in self._draft.shapes if isinstance(dims, tuple) for dim in dims)
        last = max(
            (dim[2] for dim in used if isinstance(dim, tuple) and len(dim) == 3 and dim[1] == number), default=-1
        )
        return "abcdefgh"[: last + 1], True

    def _is_counted(self, tensor: TensorDraft) -> bool:
        """Return whether the number of tensors of an output list is not that of an input list."""
        is_output = any(tensor is output for output in self._draft.outputs)
        has_list = any(source.option == DYNAMIC for source in self._draft.inputs)
        return is_output and tensor.option == DYNAMIC and not has_list

    def _shape(self, number: int) -> str:
        if self._draft.inputs[number].scalar:
            return "[1]" if self._draft.inputs[number].scalar == "one" else f"[S{number + 1}a]"
        letters, has_more = self._letters(number)
        symbols = [f"S{number + 1}{letter}" for letter in letters] + ([f"'*S{number + 1}'"] if has_more else [])
        return f"[{', '.join(symbols)}]"

    def _dims(self, shape: Shape | None, number: int) -> str | None:
        """Return the shape of an output; None if the source does not state it, or a spec cannot."""
        if shape is None or not self._draft.has_position(self._draft.outputs, number):
            return None
        if isinstance(shape, int):
            return self._shape(shape) if self._draft.has_position(self._draft.inputs, shape) else None
        found = []
        for dim in shape:
            if isinstance(dim, int):
                found.append(str(dim))
            elif len(dim) == 3:
                is_known = self._draft.has_position(self._draft.inputs, dim[1])
                letter = self._letters(dim[1])[0][dim[2] :][:1] if is_known else ""
                found.append(f"S{dim[1] + 1}{letter}" if letter else "")
            else:
                attr = self._draft.attrs[dim[1]] if dim[1] < len(self._draft.attrs) else None
                found.append(self._name(attr) if attr and attr.type == "int" else "")
        return f"[{', '.join(found)}]" if all(found) else None

    def _cases(self) -> list[str]:
        shapes = {self._name(t): self._shape(number) for number, t in enumerate(self._draft.inputs)}
        plain = next((t for t in self._draft.inputs if t.option == REQUIRED and not t.scalar), None)
        first_list = next((t for t in self._draft.inputs if t.option == DYNAMIC), None)
        rules = dict(self._draft.shapes)
        unknown = []
        for number, output in enumerate(self._draft.outputs):
            dims = self._dims(rules.get(number), number)
            if source := self._draft.in_place.get(output.name):
                shapes[self._name(output)] = shapes[self._name(source)]
                if dims not in {None, shapes[self._name(source)]}:
                    self._note(output.line, f"output {output.name}: the shape inference gives it the shape {dims}")
                continue
            like = (first_list or plain) if output.option == DYNAMIC else plain
            if output.option == DYNAMIC and first_list and dims != shapes[self._name(first_list)]:
                dims = None  # the number of its tensors is that of the input list
            if dims is None:
                unknown.append(self._name(output))
                dims = shapes[self._name(like)] if like else "[1]"
            shapes[self._name(output)] = dims
        entries = ", ".join(f"{name}: {shape}" for name, shape in shapes.items())
        comment = "# These are the shapes of the shape inference of the source."
        if self._draft.kind == NODE:
            comment = "# These are the shapes in the model. A size of an input and an output is one dimension."
        if unknown:
            kind = "that of an input" if first_list or plain else "[1]"
            comment = f"# The source states no shape of {', '.join(unknown)}: replace it. Now it is {kind}."

        return [
            *([_cut(comment)] if unknown or rules else []),
            "cases:",
            f"  - {{name: every, shapes: {{{entries}}}}}",
        ]

    def _constraints(self) -> list[str]:
        lines = ["constraints:"]
        rules = [("required", 161001), ("dtypes", 161002), ("ranks", 161002), ("shapes", 161002)]
        for number, (rule, status) in enumerate(rules, 1):
            found = [note for of, note in self._draft.stated if of == rule]
            lines += [f"  # line {note.line}: {_cut(note.text)}" for note in found]
            lines.append(f"  - {{label: C{number}, rule: {rule}, status: {status}}}")
        for number, condition in enumerate(self._draft.rules, len(rules) + 1):
            subject = self._names.get(condition.subject, condition.subject)
            lines.append(f"  # line {condition.line}: {_cut(condition.text)}")
            check = json.dumps(condition.check.replace("{}", subject))
            message = f"subject: {subject}, status: 161002, expected: {_quoted(condition.expected)}"
            lines.append(f"  - {{label: C{number}, check: {check}, {message}}}")
        return lines

    def _functions(self) -> list[str]:
        """Return the aclnn function, with the names of the source or of CANN's op_build."""
        draft = self._draft
        c_names: dict[str, str] = {}
        types: list[str] = []
        results = [output for output in draft.outputs if output.name not in draft.in_place]
        parameters: list[TensorDraft | AttrDraft] = [*draft.inputs, *self._attrs, *results]
        if draft.order:
            place = {name: index for index, name in enumerate(draft.order)}
            parameters.sort(key=lambda parameter: place.get(parameter.c_name, len(place)))
        for parameter in parameters:
            is_a_name = re.fullmatch(f"[a-z][A-Za-z0-9]{{0,{MOST_NAME}}}", parameter.c_name)
            name = parameter.c_name if is_a_name else self._c_name(parameter)
            name = free_name(name, "Value", "", camel_problem, c_names)
            c_names[name] = self._name(parameter)
            if isinstance(parameter, AttrDraft) and parameter.c_type:
                types.append(f"{name}: {parameter.c_type}")
        params = ", ".join(f"{name}: {of}" for name, of in c_names.items())
        function = draft.function or f"aclnn{draft.op_type}"
        typed = f", types: {{{', '.join(types)}}}" if types else ""
        return ["aclnn:", f"  - {{function: {function}, params: {{{params}}}{typed}}}", ""]

    def _c_name(self, parameter: TensorDraft | AttrDraft) -> str:
        name = lower_camel(self._name(parameter))
        if any(parameter is output for output in self._draft.outputs):
            return "out" if len(self._draft.outputs) == 1 else f"{name}Out"
        if parameter in self._draft.inputs and parameter.name in self._draft.overwritten:
            return f"{name}Ref"
        is_optional = isinstance(parameter, TensorDraft) and parameter.option == OPTIONAL
        return f"{name}Optional" if is_optional else name

    def _tiling(self) -> list[str]:
        fields = fitting_fields(self._draft.fields, self._note)
        if not fields and not self._draft.tiling:
            return []
        lines = ["tiling:", *self._draft.tiling, *(["  data:"] if fields else [])]
        for one in fields:
            count = f", count: {one.count}" if one.count else ""
            lines.append(f"    - {{name: {one.name}, type: {one.type}{count}}}")
        return [*lines, ""]

    def _tests(self) -> list[str]:
        """Return one call with small sizes, if all inputs can have any dimensions."""
        if any(t.value_depend for t in self._draft.inputs):
            return []
        symbols = []
        for number, tensor in enumerate(self._draft.inputs):
            if tensor.scalar:
                symbols += [f"S{number + 1}a: 4"] if tensor.scalar == "list" else []
                continue
            letters, has_more = self._letters(number)
            form = "[{}]" if tensor.option == DYNAMIC else "{}"
            pairs = zip(letters, itertools.cycle((4, 8)), strict=False)
            symbols += [f"S{number + 1}{letter}: {form.format(size)}" for letter, size in pairs]
            symbols += [f"S{number + 1}: {form.format(sizes(tensor, len(letters)))}"] if has_more else []
        required = [attr for attr in self._attrs if attr.default is None or attr.default_problem]
        attrs = [f"{self._name(attr)}: {example(attr, self._draft.rules)}" for attr in required]
        dtypes = dict.fromkeys(d for output in self._draft.outputs for d in output.dtypes if d in TOLERANCES)
        lines = ["tests:"]
        if dtypes:
            lines.append("  tolerance:")
            lines += [f"    {d}: {{rtol: {TOLERANCES[d]}, atol: {TOLERANCES[d]}}}" for d in dtypes]
        given = f", attrs: {{{', '.join(attrs)}}}" if attrs else ""
        return [
            *lines,
            "  shapes:",
            f"    - {{case: every, symbols: {{{', '.join(symbols)}}}{given}, note: small sizes}}",
        ]


def _is_built(product: str) -> bool:
    """Return whether a draft has a configuration of a product: its architecture is that of a new kernel."""
    return PRODUCTS[product].arch in TilingSpec().architectures


def _quoted(text: str) -> str:
    """Return a text as a YAML scalar in double quotes, in one line."""
    return json.dumps(_cut(" ".join(text.split())), ensure_ascii=False)


def _cut(text: str) -> str:
    clean = escaped(text)
    return clean if len(clean) <= _MOST_TEXT else f"{clean[: _MOST_TEXT - 3]}..."
