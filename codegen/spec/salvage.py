"""What remains of a spec whose mistakes nobody can guess a repair for: they must not hide other mistakes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from .model import OpSpec
from .parts import SpecModel
from .products import BUILT_PRODUCTS
from .yaml_nodes import KEY, Path

MAX_STAND_INS = 500
# What stands for a required key; `{}` is a number that makes it unique.
_STAND_INS: dict[str, Any] = {
    "op_type": "Unknown",
    "summary": "unknown",
    "formula": "unknown",
    "products": BUILT_PRODUCTS[:1],
    "name": "unknown_{}",
    "type": "int",
    "shapes": {},
    "label": "Z{}",
    "status": 161002,
    "function": "aclnnUnknown{}",
    "params": {},
    "target": "unknown.unknown{}.default",
    "args": {},
    "case": "unknown_{}",
    "symbols": {},
    "rtol": 0.0,
    "atol": 0.0,
}
_OF_MODEL: dict[tuple[str, str], Any] = {("TilingField", "type"): "int64", ("TilingKey", "name"): "Unknown{}"}
_FIRST_KEY = 2**62
# What problems say that miss a name; they are doubtful where the section that defines such names is.
_OF_LITERALS = r"|^got '[^']*'( \(.*\))?; "
_REFERENCES = {
    "inputs": r"unknown (parameter|name|tensor|symbol|host list)|which no (input|statement)|bound|no required input"
    + _OF_LITERALS,
    "attrs": r"unknown (parameter|name|attribute)|which the operator has not" + _OF_LITERALS,
    "outputs": r"unknown (parameter|name|tensor)|which is no output" + _OF_LITERALS,
    "cases": r"unknown (name|symbol|case)|which no input has|bound",
}


@dataclass
class Salvage:
    """A spec with stand-ins, and what of it is doubtful therefore.

    Attributes:
        spec: The spec; None if nothing could be made of it.
        paths: Where stand-ins are, or values were left out.
        names: Names of the elements that they belong to, those of stand-ins included.
    """

    spec: OpSpec | None = None
    paths: set[Path] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def doubts(self, path: Path, message: str) -> bool:
        """Whether a problem may be there only because of a stand-in."""
        own = _element(path)
        if any(_is_below(own, _element(other)) or _is_below(_element(other), own) for other in self.paths):
            return True
        if any(re.search(rf"\b{re.escape(name)}\b", message) for name in self.names):
            return True
        return any(re.search(_REFERENCES[str(other[0])], message) for other in self.paths if _defines_names(other))


def salvage(value: Any) -> Salvage:
    """Put stand-ins where values have the wrong kind or are missing, until the rest is a spec."""
    found = Salvage()
    for number in range(MAX_STAND_INS):
        try:
            found.spec = OpSpec.model_validate(value)
        except ValidationError as error:
            # The deepest mistake first: a list whose only item is wrong counts as empty too.
            location = max((e["loc"] for e in error.errors(include_url=False)), key=len)
        else:
            break
        path, stand_in = _stand_in(value, location, number)
        found.paths.add(path)
        found.names |= {*_names_on_the_way(value, path)}
        value = _replaced(value, path, stand_in)
        found.names |= {*_names_on_the_way(value, (*path, 0) if isinstance(stand_in, tuple) else path)}
    return found


class _LeftOut:
    """Takes the place of a value that is left out."""


def _stand_in(value: Any, location: tuple[str | int, ...], number: int) -> tuple[Path, Any]:
    """Where a mistake is, and what stands there instead."""
    path: list[str | int] = []
    annotation: Any = OpSpec
    here = value
    owner: type[SpecModel] | None = None
    for part in location:
        if part == KEY:
            return tuple(path), _LeftOut
        owner = annotation if _is_model(annotation) else None
        if owner is not None:
            if part not in owner.model_fields:
                return (*path, part), _LeftOut
            annotation = owner.model_fields[str(part)].annotation
        elif isinstance(here, (dict, tuple)) and (part in here if isinstance(here, dict) else isinstance(part, int)):
            arguments = get_args(annotation)
            annotation = arguments[-1] if get_origin(annotation) is dict else arguments[0]
        else:
            break  # the name of a member of a union
        path.append(part)
        here = _child(here, part)
    return tuple(path), _made(annotation, owner if path else None, str(path[-1]) if path else "", number)


def _made(annotation: Any, owner: type[SpecModel] | None, key: str, number: int) -> Any:
    if owner is None:
        return _model_made(annotation, number) if _is_model(annotation) else _LeftOut
    if not owner.model_fields[key].is_required():
        return _LeftOut
    if key == "key":
        return _FIRST_KEY + number
    known = _OF_MODEL.get((owner.__name__, key), _STAND_INS.get(key))
    if known is None:
        return (_model_made(get_args(annotation)[0], number),)
    return known.format(number) if isinstance(known, str) else known


def _model_made(model: type[SpecModel], number: int) -> dict[str, Any]:
    fields = model.model_fields.items()
    return {key: _made(f.annotation, model, key, number) for key, f in fields if f.is_required()}


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, SpecModel)


def _replaced(node: Any, path: Path, stand_in: Any) -> Any:
    if not path:
        return stand_in
    below, rest = path[0], path[1:]
    if isinstance(node, dict):
        items = dict(node)
        items[below] = _replaced(node.get(below), rest, stand_in)
        return {key: item for key, item in items.items() if item is not _LeftOut}
    items_of = (_replaced(item, rest, stand_in) if index == below else item for index, item in enumerate(node))
    return tuple(item for item in items_of if item is not _LeftOut)


def _element(path: Path) -> Path:
    """The element of a list that a path is in, or the path itself."""
    first = next((position for position, part in enumerate(path) if isinstance(part, int)), len(path) - 1)
    return path[: first + 1]


def _is_below(path: Path, other: Path) -> bool:
    return path[: len(other)] == other


def _names_on_the_way(value: Any, path: Path) -> Iterator[str]:
    for part in path:
        value = _child(value, part)
        if isinstance(value, dict) and isinstance(name := value.get("name"), str):
            yield name


def _child(node: Any, part: str | int) -> Any:
    """What stands below a node, or None."""
    if isinstance(node, dict):
        return node.get(part)
    return node[part] if isinstance(node, tuple) and isinstance(part, int) and part < len(node) else None


def _defines_names(path: Path) -> bool:
    """Whether names that others refer to may be lost at a path."""
    return path[:1] == ("cases",) or (path[0] in _REFERENCES and (len(path) <= 2 or path[-1] == "name"))
