"""Read operators from C++ sources: OpDef classes, REG_OP prototypes and tiling data. Nothing is executed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from opforge.codegen.data.names import snake_case
from opforge.codegen.errors import UserError

from .cpp_text import without_disabled
from .cpp_tree import Source
from .draft import ATTR_TYPES, AttrDraft, Note, OperatorDraft, TensorDraft, dtype_word
from .infer_shape import shape_rules
from .op_classes.calls import Calls
from .op_classes.classes import class_calls
from .op_classes.values import Value
from .reg_op import prototypes
from .tiling.data import tiling_data

_OPTIONS = {"REQUIRED": "required", "OPTIONAL": "optional", "DYNAMIC": "dynamic"}
_DTYPE_FOLLOWS = {"ALL", "DTYPE"}
# The defaults of OpDef.
_ZEROS: dict[str, bool | float | str | tuple[bool | float | str, ...]] = {
    "int": 0, "float": 0.0, "bool": False, "string": "",
}  # fmt: skip
_SCALARS = {"Scalar": "one", "ScalarList": "list"}
# Methods without a meaning for specs: they describe the build, or repeat a property.
_SILENT = {
    "ParamType", "DataType", "DataTypeList", "Format", "FormatList", "UnknownShapeFormat", "AutoContiguous", "AttrType",
    "ValueDepend", "Follow", "Comment", *_SCALARS, *ATTR_TYPES,
}  # fmt: skip


def drafts(text: str, place: str) -> list[OperatorDraft]:
    """Return the operators of a C++ source; one without a type has tiling data or shape inference.

    Raises:
        UserError: The source has no operator.
    """
    source = Source(without_disabled(text), place)
    found = [_draft(source, name, calls) for name, calls in class_calls(source)]
    known = {draft.op_type for draft in found}
    found += [draft for draft in prototypes(source) if draft.op_type not in known]
    found += tiling_data(source)
    found += shape_rules(source)
    if not found:
        more = f"; it uses the macro {source.macro}, which another file defines" if source.macro else ""
        raise UserError(
            f"got no OpDef class, REG_OP, tiling data or shape inference{more}; name the file that has it", place
        )
    return found


def _draft(source: Source, name: str, calls: Calls) -> OperatorDraft:
    usual = f'ExtendCfgInfo("opFile.value", "{snake_case(name)}")'
    notes = [Note(line, text) for line, text in calls.notes if not text.endswith(f": {usual}")]
    inputs, outputs = ([_tensor(entry, notes) for entry in group.values()] for group in (calls.inputs, calls.outputs))
    tensors = {tensor.name: tensor for tensor in inputs + outputs}
    width = max((len(tensor.dtypes) for tensor in tensors.values()), default=0)
    followed = {
        entry["name"].text: entry["Follow"].text
        for entry in (*calls.inputs.values(), *calls.outputs.values())
        if "Follow" in entry and str((*entry["Follow"].items, "ALL")[1]) in _DTYPE_FOLLOWS
    }
    for group in (inputs, outputs):
        for index, tensor in enumerate(group):
            leader = tensors.get(followed.get(tensor.name, ""))
            if leader is not None and not tensor.dtypes:
                group[index] = replace(tensor, dtypes=leader.dtypes, formats=tensor.formats or leader.formats)
            elif len(tensor.dtypes) == 1 and width > 1:
                notes.append(Note(tensor.line, f"tensor {tensor.name}: 1 dtype is used for all {width} combinations"))
                group[index] = replace(tensor, dtypes=tensor.dtypes * width)
    attrs = [attr for entry in calls.attrs.values() if (attr := _attr(entry, notes))]
    return OperatorDraft(
        name,
        f"{source.place}:{calls.line}",
        "OpDef",
        tuple(inputs),
        tuple(outputs),
        tuple(attrs),
        tuple(dict.fromkeys(calls.products)),
        notes=tuple(_once(notes)),
        is_partial=calls.is_partial or len(attrs) < len(calls.attrs),
    )


def _once(notes: list[Note]) -> Iterator[Note]:
    """Yield each note once, with the number of its repetitions."""
    for note, count in Counter(notes).items():
        yield replace(note, text=f"{note.text} ({count} times)") if count > 1 else note


def _tensor(entry: dict[str, Value], notes: list[Note]) -> TensorDraft:
    name, line = entry["name"].text, entry["name"].line
    for method, value in entry.items():
        if method not in _SILENT and method != "name":
            notes.append(Note(value.line, f"tensor {name}: {method}({value.shown})"))
    notes += [Note(entry[method].line, f"tensor {name}: {text}") for method, text in _unusual(entry)]
    listed = entry.get("DataType") or entry.get("DataTypeList")
    dtypes = []
    words = listed.words if listed else ()
    if "None" in words and listed:
        notes.append(Note(line, f"tensor {name}: its dtypes {listed.shown} are no constants"))
        words = ()
    for word in words:
        dtype = dtype_word(word)
        if dtype is None:
            notes.append(Note(line, f"tensor {name}: unknown dtype {word}"))
        dtypes.append(dtype or word.removeprefix("DT_").lower())
    formats = entry.get("Format") or entry.get("FormatList")
    storage = [word.removeprefix("FORMAT_") for word in formats.words if word != "None"] if formats else []
    if listed and formats and len(dtypes) > 0 and len(storage) != len(dtypes):
        notes.append(
            Note(line, f"tensor {name}: DataType and Format have different lengths: {len(dtypes)} and {len(storage)}")
        )
    option = entry["ParamType"].text if "ParamType" in entry else "REQUIRED"
    if option not in _OPTIONS:
        notes.append(Note(line, f"tensor {name}: ParamType({entry['ParamType'].shown}) is not a constant"))
    return TensorDraft(
        name,
        _OPTIONS.get(option, "required"),
        tuple(dtypes),
        tuple(storage),
        value_depend=entry["ValueDepend"].text.lower() if _depends(entry) else "",
        scalar=next((word for method, word in _SCALARS.items() if method in entry), ""),
        line=line,
    )


def _depends(entry: dict[str, Value]) -> bool:
    return "ValueDepend" in entry and entry["ValueDepend"].text in {"OPTIONAL", "REQUIRED"}


def _unusual(entry: dict[str, Value]) -> Iterator[tuple[str, str]]:
    """Yield the methods whose arguments differ from those of a generated OpDef, with a text."""
    depend, unknown = entry.get("ValueDepend"), entry.get("UnknownShapeFormat")
    if depend and (len(depend.items) > 1 or not _depends(entry)):
        yield "ValueDepend", f"ValueDepend({depend.shown})"
    formats = entry.get("Format") or entry.get("FormatList")
    if unknown and (formats is None or unknown.words != formats.words):
        yield "UnknownShapeFormat", f"UnknownShapeFormat({unknown.shown}), which differs from Format"
    follow = entry.get("Follow")
    if follow and len(follow.items) > 1 and str(follow.items[1]) not in _DTYPE_FOLLOWS:
        yield "Follow", f"Follow({follow.shown})"


def _attr(entry: dict[str, Value], notes: list[Note]) -> AttrDraft | None:
    name, line = entry["name"].text, entry["name"].line
    others = [method for method in entry if method not in {*ATTR_TYPES, "name", "AttrType", "Comment"}]
    notes += [Note(entry[method].line, f"attribute {name}: {method} is not supported") for method in others]
    for method, kind in ATTR_TYPES.items():
        if method in entry:
            value = entry[method]
            is_required = "AttrType" in entry and entry["AttrType"].text == "REQUIRED"
            default = None if is_required else value.of_type(kind)
            if default is None and not is_required and "AttrType" in entry:
                default = _ZEROS.get(kind, ())
                if value.shown:
                    notes.append(Note(line, f"attribute {name}: the default {value.shown} is not a constant"))
            return AttrDraft(name, kind, default, line)
    if not others:
        notes.append(Note(line, f"attribute {name}: its type is not stated"))
    return None
