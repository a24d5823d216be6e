"""Read the pages of aclnn functions (Markdown with HTML tables, Chinese and English)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from opforge.codegen.data.names import snake_case
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import SCALAR_TYPE
from opforge.codegen.expr.program import MAX_RANK

from .draft import DYNAMIC, OPTIONAL, REQUIRED, AttrDraft, Note, OperatorDraft, RuleDraft, TensorDraft, dtype_word
from .page_tables import tables_of

_SIGNATURE = re.compile(r"\b(aclnn\w+?)GetWorkspaceSize\s*\(([^()]*)\)")
_PARAMETER = re.compile(r"(?P<type>[\w\s]+?[\s*&]+)(?P<name>\w+)$")
_DTYPE = re.compile(
    r"\b(?:BFLOAT16|BF16|FLOAT16|FLOAT32|FLOAT|DOUBLE|U?INT(?:4|8|16|32|64)|BOOL|COMPLEX(?:32|64|128)|HIFLOAT8"
    r"|FLOAT8_E[458]M\w+|FLOAT4_E\dM\d)(?![A-Za-z0-9_])"
)
_ALIKE = re.compile(
    r"与[^\w]*(?:输入|入参)?`?([A-Za-z]\w*)[^。]{0,12}(?:一致|相同)|same as (?:that of |the [\w ]+ of )?`?(\w+)",
    re.ASCII | re.IGNORECASE,
)
_RANKS = re.compile(r"(\d)\s*(?:[-~～到至]|to)\s*(\d)|(\d)")
_RANGE = re.compile(
    r"(?:取值范围|value range|取值)[^\[\d]{0,12}\[\s*(-?\d{1,9})\s*[,，]\s*(-?\d{1,9})\s*\]", re.IGNORECASE
)
_BULLET = re.compile(r"^\s*[-*]\s*(?:\*\*)?`?(\w+)`?(?:\*\*)?\s*[(（]([^)）]*)[)）]\s*[:：]?(.*)$")
_SECTION = re.compile(r"^#+\s*(?:约束说明|约束与限制|Constraints|Restrictions)", re.IGNORECASE)
_SUMMARY = re.compile(r"(?:接口功能|算子功能|功能|Function|Description)\*{0,2}\s*[:：]\*{0,2}\s*(.+)")
# A row with two product names describes the newer product.
_PRODUCTS = tuple((family.name, re.compile(family.pages)) for family in reversed(tuple(PRODUCTS.values())))
_YES = re.compile(r"√|✓|✔|[:：]\s*支持|\bsupported\b|\byes\b", re.IGNORECASE)
_NO = re.compile(r"×|不支持|not supported|\bno\b", re.IGNORECASE)
_SCALARS = {
    "bool": "bool", "int64_t": "int", "int32_t": "int", "int8_t": "int", "uint64_t": "int", "int": "int",
    "double": "float", "float": "float", "char": "string", "aclFloatArray": "list_float", "aclBoolArray": "list_bool",
    "aclScalar": "float", "aclDataType": "int",
}  # fmt: skip
_C_TYPES = {"int8_t", "int32_t", "uint64_t", "float"}
_ENDS = {"workspaceSize", "executor"}
_NAME = "[A-Za-z][A-Za-z0-9_]*"  # \w would accept Chinese words
_NAMES = rf"(?:传入的|参数|The |the )?(?P<names>{_NAME}(?:(?:\s*[、,，/或和]\s*|,? and | or ){_NAME})*)"
# Rows of return codes with the meaning of a built-in rule, as `return code NAME NUMBER TEXT`.
_CODES = tuple(
    (rule, re.compile(rf"return code \w+ {status} {_NAMES}\s*(?:{words})[。.]?"))
    for rule, status, words in (
        ("required", 161001, r"(?:存在|是|为|其中一个为)空指针时?|(?:is|are) (?:a )?null(?: pointers?)?"),
        ("dtypes", 161002, r"的?数据类型不在支持的范围之?内|(?:has|have) (?:an )?unsupported data types?"),
        ("ranks", 161002, r"的?(?:数据)?维度(?:大于|超过)了?8维?|(?:has|have) more than (?:8|eight) dimensions"),
    )
)


def drafts(text: str, place: str) -> list[OperatorDraft]:
    """Return the operator of a page: that of its first function.

    Raises:
        UserError: The page has no aclnn function.
    """
    found = _SIGNATURE.search(text)
    signatures = [one for one in _SIGNATURE.finditer(text) if "workspaceSize" in one[2]]
    if not signatures:
        more = "its declaration lacks 'workspaceSize'" if found else "the page has no declaration"
        raise UserError(f"got no aclnn function, {more}; expected 'aclnnStatus aclnn<Op>GetWorkspaceSize(...)'", place)
    return [_Page(text, place, signatures[0]).draft()]


class _Page:
    """Reads one page."""

    def __init__(self, text: str, place: str, signature: re.Match[str]) -> None:
        self._text = text
        self._place = place
        self._signature = signature
        self._tables = tables_of(text)
        self._lines = text.split("\n")
        self._notes: list[Note] = []
        self._facts = dict(self._described())

    def draft(self) -> OperatorDraft:
        """Return the operator of the page."""
        inputs: list[TensorDraft] = []
        outputs: list[TensorDraft] = []
        attrs: list[AttrDraft] = []
        order = []
        for c_type, name in self._parameters():
            order.append(name)
            kind = next((word for word in re.findall(r"\w+", c_type) if word != "const"), "")
            if kind in {"aclTensor", "aclTensorList", "aclIntArray"}:
                tensor, is_input, is_output = self._tensor(name, kind, c_type)
                inputs += [tensor] if is_input else []
                outputs += [replace(tensor)] if is_output else []  # another object than the input
            elif kind in _SCALARS:
                attrs.append(self._attr(name, kind))
            else:
                self._note(self._line, f"parameter {name}: the type {c_type} is not read")
        rules = self._rules(inputs, attrs)
        stated = self._return_codes([*inputs, *outputs], attrs)
        self._note_sentences({rule.line for rule in rules})
        function = self._signature[1]
        summary = _SUMMARY.search(self._text)
        return OperatorDraft(
            function.removeprefix("aclnn"),
            f"{self._place}:{self._line}",
            "aclnn page",
            tuple(inputs),
            tuple(outputs),
            tuple(attrs),
            tuple(self._products()),
            function,
            tuple(order),
            re.sub(r"<[^>]*>", "", summary[1]).strip()[:200] if summary else "",
            rules=tuple(rules),
            stated=tuple(stated),
            notes=tuple(self._notes),
        )

    @property
    def _line(self) -> int:
        return self._text.count("\n", 0, self._signature.start()) + 1

    def _note(self, line: int, text: str) -> None:
        self._notes.append(Note(line, text))

    def _parameters(self) -> Iterator[tuple[str, str]]:
        """C type and name of each parameter."""
        body = re.sub(r"//[^\n]*|/\*.*?\*/", "", self._signature[2].replace("\\", ""), flags=re.DOTALL)
        for part in body.split(","):
            found = _PARAMETER.fullmatch(" ".join(part.split()))
            if found and found["name"] not in _ENDS:
                yield found["type"].strip(), found["name"]
            elif not found and part.strip():
                self._note(self._line, f"parameter {part.strip()}: is not read")

    def _described(self) -> Iterator[tuple[str, tuple[int, str, str, str, str]]]:
        """Yield line, direction, dtypes, ranks and text of each parameter in a table or list."""
        seen: set[str] = set()
        for table in self._tables:
            direction = table.column("输入/输出", "输入输出", "input/output", "i/o")
            if direction is None:
                continue
            dtype, rank = table.column("数据类型", "data type", "dtype"), table.column("维度", "dimension", "shape")
            for row, line in zip(table.rows[1:], table.lines[1:], strict=True):
                name = re.match(r"\w+", row[0].replace("\\", "")) if row else None
                if name and name[0] not in seen and len(row) > direction:
                    seen.add(name[0])
                    cells = [row[i] if i is not None and i < len(row) else "" for i in (direction, dtype, rank)]
                    words = " ".join(row[2:])
                    yield name[0], (line, cells[0], words if dtype is None else cells[1], cells[2], words)
        for number, text in enumerate(self._lines, 1):
            found = _BULLET.match(text.replace("\\", ""))
            if found and found[1] not in seen and re.search("输入|输出|input|output", found[2], re.IGNORECASE):
                seen.add(found[1])
                ranks = re.search(r"(?:维度|shape|dimension)[^。.;；]*", found[3], re.IGNORECASE)
                more = " ".join(self._lines[number : number + 4]) if not _DTYPE.search(found[3]) else ""
                yield found[1], (number, found[2], f"{found[3]} {more}", ranks[0] if ranks else "", found[3])

    def _tensor(self, name: str, kind: str, c_type: str) -> tuple[TensorDraft, bool, bool]:
        """Return a tensor, whether the function reads it, and whether the function writes it."""
        line, direction, words, ranks, text = self._facts.get(name, (self._line, "", "", "", ""))
        is_output = bool(re.search("输出|output", direction, re.IGNORECASE))
        is_input = bool(re.search("输入|input", direction, re.IGNORECASE)) or (not is_output and "const" in c_type)
        is_output = is_output or (not direction and "const" not in c_type)
        dtypes = self._dtypes(name, words)
        if name not in self._facts:
            self._note(self._line, f"parameter {name}: no table or list describes it")
        option = OPTIONAL if name.endswith("Optional") or re.search("可选|optional", text, re.IGNORECASE) else REQUIRED
        is_list = kind == "aclIntArray"
        return (
            TensorDraft(
                _spec_word(name),
                DYNAMIC if kind == "aclTensorList" else REQUIRED if is_output and not is_input else option,
                ("int64",) if is_list else dtypes,
                is_value_dependent=is_list,
                ranks=(1, 1) if is_list else _ranks(ranks),
                line=line,
                c_name=name,
            ),
            is_input or not is_output,
            is_output,
        )

    def _dtypes(self, name: str, words: str) -> tuple[str, ...]:
        """Return the dtypes that a text names, or those of the parameter that it refers to."""
        found = _DTYPE.findall(words)
        other = _ALIKE.search(words) if not found else None
        if other and (named := other[1] or other[2]) != name and named in self._facts:
            found = _DTYPE.findall(self._facts[named][2])
        return tuple(dict.fromkeys(dtype_word(word) or word.lower() for word in found))

    def _attr(self, name: str, kind: str) -> AttrDraft:
        line = self._facts.get(name, (self._line,))[0]
        if kind in {"aclScalar", "aclDataType"}:
            self._note(
                line, f"parameter {name}: {kind}, which the draft has as an attribute of the type {_SCALARS[kind]}"
            )
        c_type = SCALAR_TYPE if kind == "aclScalar" else kind if kind in _C_TYPES else ""
        return AttrDraft(_spec_word(name), _SCALARS[kind], None, line, c_name=name, c_type=c_type)

    def _products(self) -> Iterator[str]:
        """Yield the products that the page marks as supported."""
        rows = [(" ".join(row[:-1]), row[-1]) for table in self._tables for row in table.rows if len(row) == 2]
        rows += [(line, line) for line in self._lines if "<term>" in line]
        known: dict[str, bool] = {}
        for product, mark in rows:
            name = next((name for name, pattern in _PRODUCTS if pattern.search(product)), None)
            if name is not None and (_YES.search(mark) or _NO.search(mark)):
                known.setdefault(name, not _NO.search(mark))
        yield from (name for name, is_supported in known.items() if is_supported)

    def _rules(self, inputs: list[TensorDraft], attrs: list[AttrDraft]) -> list[RuleDraft]:
        """Return the statements with one meaning: ranks of inputs, and ranges of integer attributes."""
        rules = []
        for tensor in inputs:
            low, high = tensor.ranks or (0, MAX_RANK)
            of = "len({}[I])" if tensor.option == DYNAMIC else "len({})"
            limits = [f"{of} >= {low}"] * (low > 0) + [f"{of} <= {high}"] * (high < MAX_RANK)
            if limits and low < high:
                check = " and ".join(limits)
                check = f"not present({{}}) or ({check})" if tensor.option == OPTIONAL else check
                check = f"all({check} for I in indices({{}}))" if tensor.option == DYNAMIC else check
                text = f"{tensor.c_name}: {self._facts[tensor.c_name][3]}"
                rules.append(RuleDraft(check, tensor.name, f"{low} to {high} dimensions", tensor.line, text))
        for attr in attrs:
            described = self._facts.get(attr.c_name)
            found = _RANGE.findall(described[4]) if described and attr.type == "int" else []
            if len(found) == 1:
                check = f"{{}} >= {found[0][0]} and {{}} <= {found[0][1]}"
                expected = f"a value from {found[0][0]} to {found[0][1]}"
                rules.append(RuleDraft(check, attr.name, expected, attr.line, f"{attr.c_name}: {found[0]}"))
        return rules

    def _note_sentences(self, used: set[int]) -> None:
        """Add notes for the remaining statements: usage of parameters, and the section on constraints."""
        for name, (line, _, _, _, text) in self._facts.items():
            if line not in used and text.strip():
                self._note(line, f"parameter {name}: {text}")
        is_inside = False
        for number, text in enumerate(self._lines, 1):
            if text.startswith("#"):
                is_inside = bool(_SECTION.match(text))
            elif is_inside and text.strip() and not text.strip().startswith(("<", "```")):
                self._note(number, text.strip())

    def _return_codes(self, tensors: list[TensorDraft], attrs: list[AttrDraft]) -> Iterator[tuple[str, Note]]:
        """Yield the return codes that a built-in rule has for the parameters that they name; others become notes."""
        known = {tensor.c_name: tensor.option != OPTIONAL for tensor in tensors}
        known |= {attr.c_name: attr.type != "string" for attr in attrs}
        for table in self._tables:
            if table.column("错误码", "error code") is None:
                continue
            for row, line in zip(table.rows[1:], table.lines[1:], strict=True):
                text = f"return code {' '.join(row)}"
                rule = next((rule for rule, pattern in _CODES if (found := pattern.fullmatch(text))), "")
                names = (
                    [name for name in re.findall(_NAME, found["names"]) if name not in {"and", "or"}]
                    if rule and found
                    else []
                )
                if names and all(known.get(name, False) or (name in known and rule != "required") for name in names):
                    yield rule, Note(line, text)
                else:
                    self._note(line, text)


def _spec_word(name: str) -> str:
    return snake_case(name.removesuffix("Optional").removesuffix("Ref") or name)


def _ranks(text: str) -> tuple[int, int] | None:
    """Return the numbers of dimensions in a cell, if it contains one range and nothing else."""
    found = _RANKS.fullmatch(text.strip().strip("维D"))
    if found is None:
        return None
    low, high = (int(found[3]),) * 2 if found[3] else (int(found[1]), int(found[2]))
    return (low, high) if 0 <= low <= high <= MAX_RANK else None
