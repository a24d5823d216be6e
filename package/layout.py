"""Define the content of a package: the paths of its files in the vendor folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from opforge.codegen.views.facts import dtype_columns

from .builtin import hidden_op_types, hidden_symbols
from .dynamic_impl import dynamic_impl_text
from .manifest import lists
from .ops_info import ops_info_text
from .provenance import documents

if TYPE_CHECKING:
    from opforge.codegen.spec.model import OpSpec

TBE = "op_impl/ai_core/tbe"
# Scripts that run before the vendor folder exists.
OF_ARCHIVE = ("header.sh", "install.sh")
# The sources compile with the public headers of all versions in this range: first and last CANN.
CANN_VERSIONS = ("8.1", "9.1")
# The compiler version of the first CANN. GE skips a vendor whose value is outside the range of the toolkit. Newer
# toolkits accept the values of older ones.
_FIRST_COMPILER = "7.7"
NOT_TRIED = "not run with a real toolkit"
NOTE = (
    "source release: a CANN toolkit compiles the libraries and kernels of the package during the installation"
    f" ({NOT_TRIED}). Before that, aclnn calls do not work"
)
_BUILT_ON_TARGET = (
    "op_proto/lib/linux/<arch>/libcust_opsproto_rt2.0.so (shape inference)",
    f"{TBE}/op_tiling/lib/linux/<arch>/libcust_opmaster_rt2.0.so (tiling)",
    f"{TBE}/op_tiling/liboptiling.so (the same library, under the name that CANN's Python code opens)",
    f"{TBE}/kernel/<soc> (kernel binaries)",
    "op_api/lib/libcust_opapi.so (aclnn functions)",
    "framework/onnx/libcust_onnx_parsers.so (ONNX plugin)",
    "compiler_version in version.info (no CANN compiler was used)",
)
_NEVER = ("upgrade.sh and help.info beside install.sh (use --upgrade and --help of the .run file)",)
SOURCES_README = f"""\
Sources of the parts that need CANN to compile. Where it finds a toolkit the installer builds them with ../scripts/cann,
by hand, in ../scripts: python3 -m cann --package .. --work <folder> --toolkit <CANN>. This was {NOT_TRIED}.

op_proto, op_host   prototypes and shape inference -> libcust_opsproto_rt2.0.so; tiling -> libcust_opmaster_rt2.0.so
op_api              aclnn functions -> op_api/lib/libcust_opapi.so; their headers are in ../op_api/include
op_plugin           ONNX plugin -> framework/onnx/libcust_onnx_parsers.so
kernels             in ../{TBE}/<vendor>_impl/dynamic, with the tiling data headers that the tiling shares with them
"""


@dataclass(frozen=True)
class Contents:
    """The content of a package.

    Attributes:
        specs: Its operators.
        generated: Generated texts by path below the output folder of `opforge generate`.
        sources: Hand-written headers by path below the project folder (op_host/, op_kernel/, op_plugin/).
        scripts: The installer scripts by path: those of the archive, and cann/, which builds on the target.
        vendor: Vendor folder.
        version: Version of the package.
        socs: SoC directories.
        toolkit: Version of the CANN that built `products`; empty for a source release.
        products: Libraries and kernels by path below the vendor folder.
    """

    specs: Sequence[OpSpec]
    generated: Mapping[str, str]
    sources: Mapping[str, bytes]
    scripts: Mapping[str, bytes]
    vendor: str
    version: str
    socs: Sequence[str]
    toolkit: str = ""
    products: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def note(self) -> str:
        """Return one sentence about the package type."""
        if not self.toolkit:
            return NOTE
        return f"binary release, built with CANN {self.toolkit} (opforge's own build; {NOT_TRIED} by its authors)"


def _is_executable(path: str) -> bool:
    """Return whether a file of the archive is executable; other files are only read."""
    return path == "install.sh" or path.endswith("/scripts/uninstall.sh")


def layout(contents: Contents) -> dict[str, bytes]:
    """Return the content by path in the archive: `install.sh` and `packages/vendors/<vendor>/...` with its lists."""
    tree = _vendor_tree(contents)
    facts = _facts(contents)
    tree |= documents(facts, contents.sources, tree)
    tree |= lists(facts, tree)
    root = f"packages/vendors/{contents.vendor}"
    archive = {f"{root}/{path}": data for path, data in tree.items()}
    archive["install.sh"] = contents.scripts["install.sh"]
    return dict(sorted(archive.items()))


def write_tree(root: Path, archive: Mapping[str, bytes]) -> None:
    """Write the files of an archive below a folder, with the modes of the archive."""
    for name, data in archive.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(0o755 if _is_executable(name) else 0o644)


def _facts(contents: Contents) -> dict[str, object]:
    return {
        "vendor": contents.vendor,
        "version": contents.version,
        "note": contents.note,
        "release": "built" if contents.toolkit else "source",
        # Compiled files support only the release of their libraries; sources support all releases with the same
        # interface.
        "cann": [contents.toolkit, contents.toolkit] if contents.toolkit else list(CANN_VERSIONS),
        "operators": sorted(spec.op_type for spec in contents.specs),
        "socs": sorted(contents.socs),
        "builtin_op_types": hidden_op_types(contents.specs),
        "builtin_aclnn": hidden_symbols(contents.specs),
        "undocumented": {
            spec.op_type: list(spec.undocumented_devices) for spec in contents.specs if spec.undocumented_devices
        },
        "not_included": list(_NEVER if contents.toolkit else _BUILT_ON_TARGET + _NEVER),
    }


def _vendor_tree(contents: Contents) -> dict[str, bytes]:
    """Return the content by path below the vendor folder, without the manifest."""
    dynamic = f"{TBE}/{contents.vendor}_impl/dynamic"
    tree = {_place_generated(path, dynamic): text.encode() for path, text in contents.generated.items()}
    tree |= {_place_source(path, dynamic): data for path, data in contents.sources.items()}
    tree |= {f"{dynamic}/{spec.name}.py": dynamic_impl_text(spec).encode() for spec in contents.specs}
    for soc in contents.socs:
        supported = [spec for spec in contents.specs if soc in spec.built_products]
        columns = {spec.op_type: dtype_columns(spec, soc) for spec in supported}
        tree[f"{TBE}/config/{soc}/aic-{soc}-ops-info.json"] = ops_info_text(supported, columns).encode()
    tree["op_proto/inc/op_proto.h"] = _all_prototypes(contents).encode()
    tree["framework/tensorflow/npu_supported_ops.json"] = _supported_ops(contents).encode()
    tree["version.info"] = (
        f"package_version={contents.version}\nrelease=source\ncustom_opp_compiler_version={_FIRST_COMPILER}\n"
    ).encode()
    tree["src/README"] = SOURCES_README.replace("<vendor>", contents.vendor).encode()
    tree |= {f"scripts/{name}": data for name, data in contents.scripts.items() if name not in OF_ARCHIVE}
    return tree | dict(contents.products)


def _place_generated(path: str, dynamic: str) -> str:
    """Return the path of a generated file: fixed for headers and for files that CANN compiles; others are sources."""
    folder, _, rest = path.partition("/")
    suffix = PurePosixPath(path).suffix
    if folder == "op_proto" and suffix == ".h":
        return f"op_proto/inc/{rest}"
    if folder == "op_api" and suffix == ".h" and rest.startswith("aclnn_"):
        return f"op_api/include/{rest}"
    if folder == "op_kernel":
        return f"{dynamic}/{rest}"
    return path if folder == "docs" else f"src/{path}"


def _place_source(path: str, dynamic: str) -> str:
    folder, _, rest = path.partition("/")
    return f"{dynamic}/{rest}" if folder == "op_kernel" else f"src/{path}"


def _all_prototypes(contents: Contents) -> str:
    """Return one header for all operators; applications that build graphs include it."""
    from opforge.codegen.render import printed

    guard = f"OPFORGE_{contents.vendor.upper()}_OP_PROTO_H"
    return printed("op_proto.h.j2", guard=guard, names=sorted(spec.name for spec in contents.specs))


def _supported_ops(contents: Contents) -> str:
    operators = {spec.op_type: {"isGray": False, "isHeavy": False} for spec in contents.specs}
    return json.dumps(operators, indent=4, sort_keys=True) + "\n"
