"""Read the pages of aclnn functions (Markdown with HTML tables, Chinese and English)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from opforge.codegen.data.names import snake_case
from opforge.codegen.data.products import PRODUCTS
from opforge.codegen.errors import UserError
from opforge.codegen.expr.attr_kinds import SCALAR_TYPE
from opforge.codegen.expr.program import MAX_RANK

from .draft import DYNAMIC, OPTIONAL, REQUIRED, AttrDraft, Note, OperatorDraft, RuleDraft, TensorDraft, dtype_word
from .pages.lines import TAG, plain_lines, visible
from .pages.phrases import cell_dtypes, is_optional, ranks, same_as, text_dtypes, value_range
from .pages.signatures import Signature, signatures
from .pages.tables import Table, tables_of

KIND = "aclnn page"
_PARAMETER = re.compile(r"(?P<type>[\w\s]+?[\s*&]+)(?P<name>\w+)$")
_BULLET = re.compile(r"^\s*[-*]\s*(?:\*\*)?`?(\w+)`?(?:\*\*)?\s*[(（]([^)）]*)[)）]\s*[:：]?(.*)$")
_SUMMARY = re.compile(r"(?:接口功能|算子功能|功能|Function|Description)\*{0,2}\s*[:：]\*{0,2}\s*(.+)")
_HEADING = re.compile(r"^(?:#+|<h\d[^>]*>)\s*.*?\b(aclnn\w+?)(?:GetWorkspaceSize)?\s*(?:</h\d>)?\s*$")
# A row with two product names describes the newer product.
_PRODUCTS = tuple((family.name, re.compile(family.pages)) for family in reversed(tuple(PRODUCTS.values())))
_MOST_HEADING = 300
_FREE = re.compile(r"否|可选|×|no|optional", re.IGNORECASE)
_MARKS = ("√", "✓", "✔")
_YES = re.compile(r"[√✓✔]|支持|supported|yes", re.IGNORECASE)
_NO = re.compile(r"[×xX✗✘-]|不支持|暂不支持|not supported(?: yet)?|no", re.IGNORECASE)
_SCALARS = {
    "bool": "bool", "int64_t": "int", "int32_t": "int", "int8_t": "int", "uint64_t": "int", "int": "int",
    "double": "float", "float": "float", "char": "string", "aclFloatArray": "list_float", "aclBoolArray": "list_bool",
    "aclScalar": "float", "aclDataType": "int",
}  # fmt: skip
_C_TYPES = {"int8_t", "int32_t", "uint64_t", "float"}
_SIZE = re.compile(r"\w\s*\*\s*workspaceSize\b")  # calls have &workspaceSize
_ENDS = {"workspaceSize", "executor"}
# Parameters that all functions have.
_USUAL = {*_ENDS, "workspace", "stream"}
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


@dataclass(frozen=True)
class _Fact:
    """The description of a parameter: the cells of a row, or the parts of a list item."""

    line: int = 0
    direction: str = ""
    dtypes: str = ""
    ranks: str = ""
    text: str = ""
    has_cell: bool = False  # for the dtypes only
    is_optional: bool = False  # in a column of its own


def drafts(text: str, place: str) -> list[OperatorDraft]:
    """Return the operator of a page: that of its first function.

    Raises:
        UserError: The page has no aclnn function.
    """
    text = visible(text)
    found = list(signatures(text))
    complete = [one for one in found if _SIZE.search(one.body)]
    if not complete:
        more = "its declaration lacks 'uint64_t *workspaceSize'" if found else "the page has no declaration"
        raise UserError(f"got no aclnn function, {more}; expected 'aclnnStatus aclnn<Op>GetWorkspaceSize(...)'", place)
    return [_Page(text, place, complete).draft()]


class _Page:
    """Reads one page."""

    def __init__(self, text: str, place: str, functions: list[Signature]) -> None:
        self._text = text
        self._place = place
        self._signature = functions[0]
        self._functions = functions
        self._tables = tables_of(text)
        self._lines = text.split("\n")
        self._notes: list[Note] = []
        self._used: set[int] = set()  # the lines outside tables that are read
        self._owners = list(self._owner_of_lines())
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
        function = self._signature.name
        summary = _SUMMARY.search(self._text)
        products = tuple(self._products())
        for other in dict.fromkeys(one.name for one in self._functions[1:] if one.name != function):
            line = next(one.line for one in self._functions if one.name == other)
            self._note(line, f"function {other}: the draft has the first function of the page, {function}")
        draft = OperatorDraft(
            function.removeprefix("aclnn"),
            f"{self._place}:{self._line}",
            KIND,
            tuple(inputs),
            tuple(outputs),
            tuple(attrs),
            products,
            function,
            tuple(order),
            TAG.sub("", summary[1]).strip()[:200] if summary else "",
            rules=tuple(rules),
            stated=tuple(stated),
        )
        self._note_lines()
        return replace(draft, notes=tuple(self._notes))

    @property
    def _line(self) -> int:
        return self._signature.line

    def _note(self, line: int, text: str) -> None:
        self._notes.append(Note(line, " ".join(text.split())))

    def _owner_of_lines(self) -> Iterator[str]:
        """Yield the function that the last heading before each line names; empty if it names none."""
        names = {one.name for one in self._functions}
        owner = ""
        for text in self._lines:
            found = _HEADING.match(text[:_MOST_HEADING])
            if found and found[1] in names:
                owner = found[1]
            yield owner

    def _is_own(self, line: int) -> bool:
        return self._owners[line - 1] in {"", self._signature.name}

    def _parameters(self) -> Iterator[tuple[str, str]]:
        """C type and name of each parameter."""
        for part in self._signature.body.replace("\\", "").split(","):
            found = _PARAMETER.fullmatch(" ".join(part.split()))
            if found and found["name"] not in _ENDS:
                yield found["type"].strip(), found["name"]
            elif not found and part.strip():
                self._note(self._line, f"parameter {part.strip()}: is not read")

    def _described(self) -> Iterator[tuple[str, _Fact]]:
        """Yield the description of each parameter in a table or list."""
        seen: set[str] = set(_USUAL)
        for table in self._tables:
            direction = table.column("输入/输出", "输入输出", "input/output", "i/o")
            if direction is None:
                continue
            table.is_read = True
            dtype, rank = table.column("数据类型", "data type", "dtype"), table.column("维度", "dimension", "shape")
            required = table.column("必选", "必填", "required")
            for row, line in zip(table.rows[1:], table.lines[1:], strict=True):
                name = re.match(r"\w+", row[0].replace("\\", "")) if row else None
                if name and name[0] not in seen and len(row) > direction and self._is_own(line):
                    seen.add(name[0])
                    cells = [row[i] if i is not None and i < len(row) else "" for i in (direction, dtype, rank)]
                    words = "\n".join(row[2:])
                    dtypes = words if dtype is None else cells[1]
                    is_free = required is not None and required < len(row) and _FREE.fullmatch(row[required])
                    yield name[0], _Fact(line, cells[0], dtypes, cells[2], words, dtype is not None, bool(is_free))
                elif name and name[0] not in _USUAL:
                    self._note(line, f"other description of {name[0]}: {' '.join(row[1:])}")
        for number, text in enumerate(self._lines, 1):
            found = _BULLET.match(text.replace("\\", ""))
            is_own = self._is_own(number)
            if (
                found
                and is_own
                and found[1] not in seen
                and re.search("输入|输出|input|output", found[2], re.IGNORECASE)
            ):
                seen.add(found[1])
                self._used.add(number)
                shape = re.search(r"(?:维度|shape|dimension)[^。.;；]*", found[3], re.IGNORECASE)
                more = "\n".join(self._items_below(number)) if not text_dtypes(found[3])[0] else ""
                dtypes = f"{found[3]}\n{more}"
                yield found[1], _Fact(number, found[2], dtypes, shape[0] if shape else "", found[3])

    def _items_below(self, number: int) -> Iterator[str]:
        """Yield the next lines up to the next parameter, four at most."""
        for text in self._lines[number : number + 4]:
            if _BULLET.match(text.replace("\\", "")) or text.startswith("#"):
                return
            yield text

    def _tensor(self, name: str, kind: str, c_type: str) -> tuple[TensorDraft, bool, bool]:
        """Return a tensor, whether the function reads it, and whether the function writes it."""
        fact = self._facts.get(name, _Fact(self._line))
        is_output = bool(re.search("输出|output", fact.direction, re.IGNORECASE))
        is_input = bool(re.search("输入|input", fact.direction, re.IGNORECASE)) or (not is_output and "const" in c_type)
        is_output = is_output or (not fact.direction and "const" not in c_type)
        dtypes = self._dtypes(name)
        if name not in self._facts:
            self._note(self._line, f"parameter {name}: no table or list describes it")
        is_free = fact.is_optional or is_optional(name, f"{fact.direction}\n{fact.text}")
        option = OPTIONAL if is_free else REQUIRED
        is_list = kind == "aclIntArray"
        return (
            TensorDraft(
                _spec_word(name),
                DYNAMIC if kind == "aclTensorList" else REQUIRED if is_output and not is_input else option,
                ("int64",) if is_list else dtypes,
                value_depend=option if is_list else "",
                ranks=(1, 1) if is_list else ranks(fact.ranks),
                line=fact.line,
                c_name=name,
            ),
            is_input or not is_output,
            is_output,
        )

    def _dtypes(self, name: str) -> tuple[str, ...]:
        """Return the dtypes that a text names, or those of the parameter that it refers to."""
        followed: list[str] = []
        while (fact := self._facts.get(name)) is not None and name not in followed:
            followed.append(name)
            words, is_certain = (cell_dtypes if fact.has_cell else text_dtypes)(fact.dtypes)
            if words:
                dtypes = tuple(dict.fromkeys(dtype_word(word) or word.lower() for word in words))
                if not is_certain and len(followed) == 1:
                    limit = f"the draft has {', '.join(dtypes)}, without the conditions of the text"
                    self._note(fact.line, f"dtypes of {name}: {limit}: {fact.dtypes}")
                return dtypes
            name = same_as(fact.dtypes, is_cell=fact.has_cell)
        return ()

    def _attr(self, name: str, kind: str) -> AttrDraft:
        line = self._facts.get(name, _Fact(self._line)).line
        if kind in {"aclScalar", "aclDataType"}:
            self._note(
                line, f"parameter {name}: {kind}, which the draft has as an attribute of the type {_SCALARS[kind]}"
            )
        c_type = SCALAR_TYPE if kind == "aclScalar" else kind if kind in _C_TYPES else ""
        return AttrDraft(_spec_word(name), _SCALARS[kind], None, line, c_name=name, c_type=c_type)

    def _products(self) -> Iterator[str]:
        """Yield the products that the page marks as supported."""
        rows = [
            (row[0], row[1] if not any(row[2:]) else " | ".join(row[1:]), line)
            for table in self._tables
            for row, line in zip(table.rows[1:], table.lines[1:], strict=True)
            if len(row) > 1 and _is_product_table(table)
        ]
        for number, text in enumerate(self._lines, 1):
            product, _, mark = TAG.sub("", text).replace("：", ":").rpartition(":")
            if (
                "<term>" in text
                and product
                and (_YES.fullmatch(mark.strip(" 。.")) or _NO.fullmatch(mark.strip(" 。.")))
            ):
                rows.append((product, mark.strip(" 。."), number))
                self._used.add(number)
        known: dict[str, bool] = {}
        for product, mark, line in rows:
            name = next((name for name, pattern in _PRODUCTS if pattern.search(product)), None)
            is_no, is_yes = (pattern.fullmatch(mark.strip()) for pattern in (_NO, _YES))
            is_marked = is_yes or is_no or mark.strip().startswith(_MARKS)
            if name is not None and is_marked:
                known.setdefault(name, not is_no)
            if not (is_no or (is_yes and name)):
                self._note(line, f"product {product}: {mark}")
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
                text = f"{tensor.c_name}: {self._facts[tensor.c_name].ranks}"
                rules.append(RuleDraft(check, tensor.name, f"{low} to {high} dimensions", tensor.line, text))
        for attr in attrs:
            described = self._facts.get(attr.c_name)
            found = value_range(described.text) if described and attr.type == "int" else None
            if found:
                low, high, text = found
                check = f"{{}} >= {low} and {{}} <= {high}"
                rules.append(
                    RuleDraft(check, attr.name, f"a value from {low} to {high}", attr.line, f"{attr.c_name}: {text}")
                )
        return rules

    def _note_lines(self) -> None:
        """Add notes for the text of parameters, the rows of other tables, and the lines that are not read."""
        for name, fact in self._facts.items():
            if fact.text.strip(" \n-"):
                self._note(fact.line, f"parameter {name}: {fact.text}")
        for table in self._tables:
            rows = () if table.is_read or _is_product_table(table) else zip(table.rows, table.lines, strict=True)
            for row, line in rows:
                self._note(line, " | ".join(row))
        for number, text in plain_lines(self._lines):
            if number not in self._used:
                self._note(number, text)

    def _return_codes(self, tensors: list[TensorDraft], attrs: list[AttrDraft]) -> Iterator[tuple[str, Note]]:
        """Yield the return codes that a built-in rule has for the parameters that they name; others become notes."""
        known = {tensor.c_name: tensor.option != OPTIONAL for tensor in tensors}
        known |= {attr.c_name: attr.type != "string" for attr in attrs}
        for table in self._tables:
            if table.column("错误码", "error code") is None:
                continue
            table.is_read = True
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


def _is_product_table(table: Table) -> bool:
    return bool(table.rows and table.rows[0] and re.search("产品|product", table.rows[0][0], re.IGNORECASE))


def _spec_word(name: str) -> str:
    return snake_case(name.removesuffix("Ref").removesuffix("Optional") or name)
