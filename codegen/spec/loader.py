"""Read specs: one `OpSpec` per file, or one error that lists every problem of the file with its position."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path as FilePath
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from opforge.codegen.data.names import nearest
from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import escaped, path_text
from opforge.codegen.project import MOST_SPEC_BYTES, Project

from .field_types import FORMS, SpecModel, UnknownWordError
from .model import DeclaredSpec, OpSpec, PartialSpec
from .validate import problems_of
from .yaml_nodes import KEY, Document, Path, Problem, dotted, read_yaml

# A spec with this number of items takes seconds; no operator of CANN has half of them.
_MOST_ITEMS = 512
_MOST_LINES = 200
_MOST_AT = {"inputs": 64, "attrs": 64, "outputs": 64, "cases": 64, "aclnn": 16}
_EXPECTED = {
    "string_type": "text",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "finite_number": "a finite number",
}


class SpecError(UserError):
    """Specs with problems: one line each, `file:line:column: key: actual value; expected value`."""


def load_specs(paths: Iterable[str | FilePath]) -> tuple[OpSpec, ...]:
    """Read specs, in the order given.

    Raises:
        SpecError: Files cannot be read or have problems, or two operators share a name; all problems are listed.
    """
    specs: list[OpSpec] = []
    files: dict[tuple[str, str], tuple[str, FilePath]] = {}
    lines: list[str] = []
    for path in map(FilePath, paths):
        try:
            spec, document = _read(path)
        except SpecError as error:
            lines.append(str(error))
            continue
        lines += _repeated(path, spec, document, files)
        specs.append(spec)
    if lines:
        raise SpecError("\n".join(lines))
    return tuple(specs)


def _repeated(
    path: FilePath, spec: OpSpec, document: Document, files: dict[tuple[str, str], tuple[str, FilePath]]
) -> list[str]:
    """Return one line for each name that another operator has; add the names of this one to `files`.

    Names that differ only in case give equal file names.
    """
    functions = [(("aclnn", i, "function"), f.function) for i, f in enumerate(spec.aclnn)]
    aliases = [(("onnx", "aliases", i), alias) for i, alias in enumerate(spec.onnx.aliases)]
    names: list[tuple[Path, str]] = [(("op_type",), spec.op_type), *functions, *aliases]
    lines = []
    for where, name in names:
        # An alias is also an operator type, in another domain.
        key = ("function" if where[0] == "aclnn" else "op_type", name.lower())
        if key in files:
            first, file = files[key]
            got = f"got {name!r} again" if first == name else f"got {name!r}, which differs from {first!r} in case only"
            message = f"{got}, {path_text(file)} defines it already"
            lines.append(_line(path, Problem(document.place(where), where, message)))
        files.setdefault(key, (name, path))
    return lines


def load_project(project: Project, *, declared: bool = False) -> tuple[OpSpec, ...]:
    """Read all specs of a project; its suffix, if any, is added to the names of the operators.

    Args:
        project: The project.
        declared: Whether to include operators that are declared only.

    Raises:
        SpecError: As `load_specs`.
    """
    specs = with_suffix(load_specs(project.spec_paths()), project.op_suffix)
    return tuple(spec for spec in specs if declared or not spec.declared_only)


def with_suffix(specs: Sequence[OpSpec], suffix: str) -> tuple[OpSpec, ...]:
    """Return the operators with names that end with a suffix; it may be empty."""
    return tuple(spec.with_suffix(suffix) if suffix else spec for spec in specs)


@lru_cache(maxsize=64)
def read_text(text: str) -> tuple[OpSpec | None, Document]:
    """Read a spec from its text; without a spec, the document has its problems, sorted by position."""
    document = read_yaml(text)
    spec = None
    too_long = [Problem(document.place(place), place, message) for place, message in _too_long(document.value, ())]
    document.problems.extend(too_long)
    if not too_long and (not document.problems or document.value is not None):
        spec = _validate(document)
    document.problems.sort(key=lambda problem: (problem.place.line, problem.place.column))
    return (None if document.problems else spec), document


def _read(path: FilePath) -> tuple[OpSpec, Document]:
    spec, document = read_text(_text(path))
    if spec is None:
        problems = document.problems
        lines = [*dict.fromkeys(_line(path, problem) for problem in problems[: 2 * _MOST_LINES])]
        if len(lines) > _MOST_LINES:
            lines[_MOST_LINES:] = [f"{path_text(path)}: ... and more problems, {len(problems)} in all"]
        raise SpecError("\n".join(lines))
    return spec, document


def _line(path: FilePath, problem: Problem) -> str:
    where = f"{dotted(problem.path)}: " if problem.path else ""
    return escaped(f"{path_text(path)}:{problem.place.line}:{problem.place.column}: {where}{problem.message}")


def _text(path: FilePath) -> str:
    try:
        content = read_regular(path, "spec", MOST_SPEC_BYTES, "make it smaller")
    except UserError as error:
        raise SpecError(str(error)) from error
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        column = error.start - content.rfind(b"\n", 0, error.start)
        message = f"got byte {content[error.start]:#04x}, expected UTF-8 text; save the file as UTF-8"
        raise SpecError(f"{path_text(path)}:{line}:{column}: {message}") from error


def _too_long(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    """Yield the lists and mappings with too many items."""
    if not isinstance(value, (dict, tuple)):
        return
    most = _MOST_AT.get(str(path[0]), _MOST_ITEMS) if len(path) == 1 else _MOST_ITEMS
    if len(value) > most:
        yield path, f"got {len(value)} items, expected at most {most}"
        return
    for part, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield from _too_long(item, (*path, part))


def _validate(document: Document) -> OpSpec | None:
    """Return the spec; add problems to the document."""
    if not isinstance(document.value, dict):
        message = f"got {_short(document.value)}, expected the keys of a spec, as in 'op_type: ScaledAdd'"
        document.problems.append(Problem(document.place(()), (), message))
        return None
    spec, renamed = _spec_of(document, document.value)
    for path, message in problems_of(spec):
        original = _original(path, renamed)
        place = document.place(original)
        if original[-1:] == (KEY,):
            original = original[:-1]
            place = document.key_place(original)
        document.problems.append(Problem(place, original, message))
    return None if isinstance(spec, PartialSpec) else _with_dtypes_resolved(spec)


def _spec_of(document: Document, value: Any) -> tuple[OpSpec, dict[Path, Path]]:
    """Return the spec with misspelled keys and words corrected, and new path -> old path of the keys; report problems.

    Sections with other errors of form are removed from the spec, so that one run reports all problems.
    """
    model = DeclaredSpec if value.get("declared_only") is True else OpSpec
    try:
        return model.model_validate(value), {}
    except ValidationError as error:
        errors = error.errors(include_url=False)
    _report(document, errors, {})
    value, renamed = _with_keys_repaired(value, errors)
    try:
        return model.model_validate(value), renamed
    except ValidationError as error:
        errors = error.errors(include_url=False)
    # Only keys below a misspelled key are new.
    _report(document, [e for e in errors if _original(e["loc"], renamed) != e["loc"]], renamed)
    value = _with_words_repaired(value, errors)
    try:
        return model.model_validate(value), renamed
    except ValidationError as error:
        wrong = {e["loc"][0] for e in error.errors(include_url=False)}
    right: dict[str, Any] = {n: f.annotation for n, f in model.model_fields.items() if n in value and n not in wrong}
    sections = {name: TypeAdapter(annotation).validate_python(value[name]) for name, annotation in right.items()}
    spec = PartialSpec.model_construct(**sections)
    for name in wrong:
        spec.__dict__.pop(str(name), None)
    return spec, renamed


def _original(path: Path, renamed: dict[Path, Path]) -> Path:
    """Return the path in the file for a path in the corrected spec."""
    for length in range(len(path), 0, -1):
        if path[:length] in renamed:
            return (*renamed[path[:length]], *path[length:])
    return path


def _with_dtypes_resolved(spec: OpSpec) -> OpSpec:
    def resolved(name: str | None, own: tuple[str, ...]) -> tuple[str, ...]:
        of = next((tensor for tensor in spec.inputs if tensor.name == name), None)
        return of.dtypes if of else own

    def group(tensors: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(t.model_copy(update={"dtypes": resolved(t.dtype, t.dtypes)}) for t in tensors)

    return spec.model_copy(update={"inputs": group(spec.inputs), "outputs": group(spec.outputs)})


def _report(document: Document, errors: list[ErrorDetails], renamed: dict[Path, Path]) -> None:
    unknown = {tuple(error["loc"]) for error in errors if error["type"] == "extra_forbidden"}
    intended = {(*path[:-1], near) for path in unknown if (near := _nearest_key(path))}
    kinds: dict[Path, list[str]] = {}
    reported: set[Path] = set()
    for error in errors:
        path = _document_path(document, error, renamed)
        if error["type"] == "extra_forbidden":
            document.problems.append(Problem(document.key_place(path), path, _unknown_key(error["loc"])))
        elif error["type"] == "missing":
            if error["loc"] not in intended:
                place = document.place(path[:-1])
                document.problems.append(Problem(place, path, "is missing; add this key"))
        elif error["type"] == "too_short" and error["input"]:
            continue  # it only seems too short, because some of its items are wrong
        elif error["type"] in _EXPECTED:
            kinds.setdefault(path, []).append(_EXPECTED[error["type"]])
        else:
            reported.add(path)
            place = document.key_place(path) if KEY in error["loc"] else document.place(path)
            document.problems.append(Problem(place, path, _message(error)))
    for path, expected in kinds.items():
        if path in reported:
            continue  # of a union: one of its members has the kind and rejects the value
        got = _short(_at(document.value, path))
        message = f"got {got}, expected {' or '.join(dict.fromkeys(expected))}"
        document.problems.append(Problem(document.place(path), path, message))


def _document_path(document: Document, error: ErrorDetails, renamed: dict[Path, Path]) -> Path:
    """Return the path of an error without the names that pydantic adds for union members and keys."""
    path = _original(tuple(part for part in error["loc"] if part != KEY), renamed)
    if error["type"] == "missing":
        return path
    while path and path not in document.values:
        path = path[:-1]
    return path


def _unknown_key(path: Path) -> str:
    fields = _fields_at(path[:-1])
    key = str(path[-1])
    near = nearest(key, fields)
    hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(sorted(fields))}"
    return f"unknown key {key!r}; {hint}"


def _nearest_key(path: Path) -> str | None:
    return nearest(str(path[-1]), _fields_at(path[:-1]))


def _fields_at(path: Path) -> list[str]:
    """Return the keys of the model at a path of the spec."""
    annotation: Any = OpSpec
    for part in path:
        if isinstance(annotation, type) and issubclass(annotation, SpecModel):
            annotation = annotation.model_fields[str(part)].annotation
        else:
            arguments = get_args(annotation)
            annotation = arguments[-1] if get_origin(annotation) is dict else arguments[0]
        if get_origin(annotation) is UnionType:  # an optional model
            annotation = get_args(annotation)[0]
    model: type[SpecModel] = annotation
    return [field.alias or name for name, field in model.model_fields.items()]


def _with_keys_repaired(value: Any, errors: list[ErrorDetails]) -> tuple[Any, dict[Path, Path]]:
    """Return a copy with unknown keys renamed to the probably intended ones or removed, and new path -> old path."""
    renames = {tuple(e["loc"]): _nearest_key(tuple(e["loc"])) for e in errors if e["type"] == "extra_forbidden"}
    renamed: dict[Path, Path] = {}

    def copy(node: Any, path: Path) -> Any:
        if isinstance(node, tuple):
            return tuple(copy(item, (*path, index)) for index, item in enumerate(node))
        if not isinstance(node, dict):
            return node
        mapping = {}
        for key, item in node.items():
            here = (*path, key)
            name = renames.get(here, key)
            if name is None or (name != key and name in node):
                continue
            if name != key:
                renamed[(*path, name)] = here
            mapping[name] = copy(item, here)
        return mapping

    return copy(value, ()), renamed


def _with_words_repaired(value: Any, errors: list[ErrorDetails]) -> Any:
    """Return a copy with misspelled words replaced by the probably intended ones."""

    def replaced(node: Any, path: Path, word: str) -> Any:
        if not path:
            return word
        if isinstance(node, dict) and path[0] in node:
            return {key: replaced(item, path[1:], word) if key == path[0] else item for key, item in node.items()}
        if isinstance(node, (list, tuple)):
            return type(node)(replaced(item, path[1:], word) if i == path[0] else item for i, item in enumerate(node))
        return node

    for error in errors:
        refusal = error.get("ctx", {}).get("error")
        if isinstance(refusal, UnknownWordError) and refusal.near:
            value = replaced(value, error["loc"], refusal.near)
    return value


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _message(error: ErrorDetails) -> str:
    context = error.get("ctx", {})
    got = _short(error["input"])
    match error["type"]:
        case "value_error":
            return str(context["error"])
        case "too_short":
            return f"got an empty list, expected at least {context['min_length']}"
        case "string_too_short":
            return "got an empty text, expected at least one character"
        case "string_too_long":
            return f"got {len(str(error['input']))} characters, expected at most {context['max_length']}"
        case "string_pattern_mismatch":
            return f"got {got}, expected {FORMS[context['pattern']]}"
        case "literal_error":
            return f"got {got}, expected {context['expected']}"
        case "greater_than_equal":
            return f"got {got}, expected at least {context['ge']}"
        case "less_than_equal":
            return f"got {got}, expected at most {context['le']}"
        case _:
            return f"got {got}; {error['msg'][:1].lower()}{error['msg'][1:]}"
