"""Tiling data of public kernels: the fields in a header of the clone, and values that follow from shapes and chip."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from pathlib import Path

from opforge.codegen.data.products import Soc
from opforge.codegen.errors import UserError
from opforge.codegen.files import read_regular
from opforge.codegen.printing import path_text

Tiling = dict[str, int]

_STRUCTURE = re.compile(r"\bBEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\)(.*?)\bEND_TILING_DATA_DEF\b", re.DOTALL)
_FIELD = re.compile(r"\bTILING_DATA_FIELD_DEF(?P<kind>\w*)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)")
_PLAIN = re.compile(r"\bstruct\s+(\w+)\s*\{(.*?)\}\s*;", re.DOTALL)
_MEMBER = re.compile(r"^\s*(\w+)\s+(\w+)\s*(?:\[(\d{1,2})\])?\s*;", re.MULTILINE)
_FORMATS = {"uint32_t": "I", "int32_t": "i", "uint64_t": "Q", "int64_t": "q"}
_MOST_TEXT = 1 << 20
_BLOCK = 32  # bytes
_LANES = 64  # float32 elements of a vector instruction


def text_of(path: Path) -> str:
    """Return the text of a source file of a clone."""
    return read_regular(path, "source file of a clone", _MOST_TEXT, "use a complete clone").decode(errors="replace")


def fields_of(header: Path) -> list[tuple[str, str]]:
    """Return format of struct and name of each field of the last structure; a field of a part is `part.field`."""
    structures = {found[1]: _FIELD.findall(found[2]) for found in _STRUCTURE.finditer(text_of(header))}
    fields = [] if structures else _members(text_of(header))
    for kind, of, name in structures[next(reversed(structures))] if structures else []:
        inner = structures.get(of, []) if kind == "_STRUCT" else [(kind, of, "")]
        fields += [(own, f"{name}.{field}".strip(".")) for _, own, field in inner]
    unknown = [kind for kind, _ in fields if kind not in _FORMATS]
    if not fields or unknown:
        got = unknown[0] if unknown else "no fields"
        raise UserError(f"{path_text(header)}: got {got}, expected fields of {', '.join(_FORMATS)}")
    return [(_FORMATS[kind], name) for kind, name in fields]


def _members(text: str) -> list[tuple[str, str]]:
    """Return type and name of each member of the last structure in C; element i of an array is `member.i`."""
    found = list(_PLAIN.finditer(text))
    return [
        (kind, f"{name}.{index}" if count else name)
        for kind, name, count in (_MEMBER.findall(found[-1][2]) if found else [])
        for index in range(int(count or 1))
    ]


def packed(header: Path, tiling: Mapping[str, int]) -> bytes:
    """Return the bytes of tiling data, with the alignment of C."""
    fields = fields_of(header)
    if unknown := [name for _, name in fields if name not in tiling]:
        raise UserError(f"{path_text(header)}: got the field {unknown[0]}, expected known fields; use another commit")
    try:
        return struct.pack("@" + "".join(form for form, _ in fields), *(tiling[name] for _, name in fields))
    except struct.error as error:
        raise UserError(f"{path_text(header)}: got '{error}', expected integers of the fields") from error


def _shares(blocks: int, elements: int, tile: int) -> Tiling:
    """Return the tiling data of cores with this number of blocks, and of those with one block more."""
    found = {"tileDataNum": tile}
    for name, count in (("small", blocks * elements), ("big", (blocks + 1) * elements)):
        found[f"{name}CoreDataNum"] = count
        found[f"final{name.capitalize()}TileNum"] = -(-count // tile)
        found[f"{name}TailDataNum"] = count % tile or tile
    return found


def even_blocks(elements: int, item: int, tile_blocks: int, cores: int) -> Tiling:
    """Return the tiling data of elementwise kernels: blocks of 32 bytes on all cores, the first ones with one more.

    Args:
        elements: Elements of the tensor.
        item: Bytes of an element.
        tile_blocks: Blocks of a tile.
        cores: Cores of the launch.
    """
    each, larger = divmod(-(-elements * item // _BLOCK), cores)
    tile = tile_blocks * _BLOCK // item
    return {"tailBlockNum": larger} | _shares(each, _BLOCK // item, tile)


def repeated_columns(soc: Soc, rows: int, columns: int) -> tuple[int, Tiling]:
    """Return cores and tiling data of BroadcastV2, which repeats one column of float32, without a temporary buffer."""
    blocks = -(-rows * 4 // _BLOCK)
    cores = min(soc.aiv, blocks)
    tile = soc.ub // (2 * 4 * (1 + columns)) * 4 // _BLOCK * _BLOCK // 4
    found = {"tailBlockNum": blocks % cores, "totalLength": rows, "bLength": rows, "num": columns}
    found |= _shares(blocks // cores, _BLOCK // 4, tile)
    return cores, found | {"tilenum": 0, "tmpSize": 0, "dim": 2, "isReuseSource": 0, "axis": 1, "sLength": 1}


def _lanes(prefix: str, elements: int) -> Tiling:
    """Return how often a row fills an instruction, its elements in full instructions, and the others."""
    times = elements // _LANES
    names = ("ComputeRepTime", "ComputeFormerNum", "ComputeTailNum")
    return {
        f"{prefix}{name}": value
        for name, value in zip(names, (times, times * _LANES, elements - times * _LANES), strict=True)
    }


def embedding_dense_grad(
    soc: Soc, rows: int, width: int, table: int, item: int, *, is_scaled: bool
) -> tuple[int, int, Tiling]:
    """Return tiling key, cores and tiling data of EmbeddingDenseGradV2 on architecture 2201, not deterministic.

    Args:
        soc: The chip.
        rows: Rows of grad.
        width: Elements of a row.
        table: Rows of the table.
        item: Bytes of an element.
        is_scaled: Each row is divided by the number of its indices.
    """
    cores = min(soc.aiv, rows, table if is_scaled else rows)
    left = soc.ub - 20480  # the kernel does not use the rest
    most = (left - 96) // (_LANES * (3 if item == 4 else 4)) * 16
    part = min(width, most)
    rest = width % part
    is_small = width <= 512 and table <= 1 << 24
    computed = _lanes("former", part) | _lanes("tail", rest)
    params = computed | {
        "coreNum": cores,
        "tailRowNum": rows // cores,
        "formerRowNum": rows // cores + 1,
        "formerRowRepTime": rows % cores,
        "computeMask": _LANES,
        "numWeights": table,
        "embeddingDim": width,
        "paddingIdx": (1 << 64) - 1,
        "scaleGradByFreq": int(is_scaled),
        "formerDimRepTime": width // part,
        "formerEmbeddingDim": part,
        "tailEmbeddingDim": rest,
        "scaleWorkspaceLength": -(-table // 8) * 8 if is_scaled else 0,
        "outStageWorkspaceLength": -(-part * cores * 2 // 8) * 8,
        "outIndexWorkspaceLength": cores * 2,
        "outCastedWorkspaceLength": table * width,
    }
    scale = computed | {
        "tailCoreRowNum": table // cores,
        "formerCoreRowNum": table // cores + 1,
        "formerCoreRowRepTime": table % cores,
        "mask": _LANES,
    }
    each = rows // cores
    last = rows - each * (cores - 1)
    fit = max(1, (left // 4 - width - 256) // (10 + -(-width // 8) * 8) // (1 if item == 4 else 2))
    small = {
        "partNum": 1,
        "formerCopyRow": each,
        "tailCopyRow": last,
        "formerCopyTime": -(-each // fit),
        "tailCopyTime": -(-last // fit),
        "maxRowInUb": fit,
        "formerLastRow": each - fit * (-(-each // fit) - 1),
        "tailLastRow": last - fit * (-(-last // fit) - 1),
    }
    unused = ("gradRow", "tailRowNum", "formerRowNum", "formerRowNumRepTime", *computed, "computeMask")
    tiling = {f"params.{name}": value for name, value in params.items()}
    tiling |= {f"scaleTiling.{name}": value for name, value in scale.items()}
    tiling |= {f"determinTiling.{name}": 0 for name in unused}
    tiling |= {f"smallDimTiling.{name}": value for name, value in small.items()}
    return int(is_scaled) + 100 * int(is_small), cores, tiling


def nsa_compress_grad(
    soc: Soc, shape: tuple[int, int, int], rows: int, sequences: int, window: tuple[int, int]
) -> tuple[int, int, Tiling]:
    """Return tiling key, cores and tiling data of NsaCompressGrad.

    Args:
        soc: The chip.
        shape: Windows, heads, and elements of a head.
        rows: Rows of the input.
        sequences: Number of sequences, whose ends are an input.
        window: Rows of a window, and rows from one window to the next.
    """
    windows, heads, width = shape
    return (
        0,
        soc.aiv,
        {
            "batchSize": sequences,
            "numOfBlock": windows,
            "numOfHead": heads,
            "dimOfHead": width,
            "blockSize": window[0],
            "blockStride": window[1],
            "seqLenType": 0,
            "headToProcess": rows * heads // soc.aiv,
            "headRemainder": rows * heads % soc.aiv,
            "ubMaxSize": soc.ub,
        },
    )
