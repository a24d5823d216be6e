"""Find the Ascend C sources of a clone: single-source examples, projects with CMake, and kernels of operators."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from opforge.codegen.data.products import BUILT_PRODUCTS, DEFAULT_ARCH, PRODUCTS
from opforge.codegen.importers.cpp_text import without_comments

from .cmake_text import Program, Steps, read_programs, read_scenarios, read_steps
from .op_sources import Definition, dtype_header, has_auto_sync, read_definition, tiling_header
from .walk import Tree

ARCH = DEFAULT_ARCH
ARCHITECTURE = f"dav-{ARCH}"
_CHIPS = tuple(name for name in BUILT_PRODUCTS if PRODUCTS[name].arch == ARCH)
_HERE = ("CMAKE_CURRENT_SOURCE_DIR", "CMAKE_CURRENT_LIST_DIR", "CMAKE_SOURCE_DIR", "PROJECT_SOURCE_DIR")
_DEFAULT_OPTIONS = {
    "CMAKE_ASC_ARCHITECTURES": ARCHITECTURE,
    "CMAKE_ASC_RUN_MODE": "npu",
    "RUN_MODE": "npu",
    **dict.fromkeys(_HERE, "."),
}
_OF_SCENARIO = ("sources", "include_dirs", "defines", "before", "arguments", "after")
_CODE = (".asc", ".cpp", ".h")
_CONFIG = "scripts/kernel/binary_config/ascendc_config.json"
_OTHER_FOLDERS = re.compile(r"/(?:arch(?!2[02])\w+|v3\d|v310\w*|ascend310\w*|ascend950\w*|regbase|experimental|tests)/")
_OTHER_TEST = re.compile(r"(?<![a-z])apt(?![a-z])|arch35")
_INCLUDED = re.compile(r'^[ \t]*+#[ \t]*+include[ \t]*+"([^"\n]++)"', re.MULTILINE)
_KERNEL = re.compile(r"__global__\b|kernel_operator\.h|<<<")


@dataclass
class Source:
    """One row of the result: files that are compiled together, and how they run.

    Attributes:
        path: Name in the result.
        kind: `example` (has a main function), `kernel` (a source without one) or `operator` (a kernel in `op_kernel`).
        root: The clone.
        folder: Folder that is copied for the run, below `root`.
        sources: Files that are compiled, below `root`.
        include_dirs: Include folders, below `root`.
        links: Folders of other kernels with included files, below `root`, by the operator's name.
        defines: Macros.
        tiling: Structures of tiling data, inserted before an operator's kernel and its unit test.
        dtypes: Macros, inserted before an operator's kernel.
        tests: Unit tests of an operator's kernel, below `root`.
        test_header: Header of the unit tests that replaces `tiling` in them, below `root`.
        test_has_tiling: The unit tests define the structures of `tiling` themselves.
        test_defines: Macros of the unit tests.
        has_lists: The operator has lists of tensors.
        has_auto_sync: The compiler inserts synchronization into the kernel (`--cce-auto-sync`).
        scenarios: The fields that differ in each scenario, by name (`SCENARIO_NUM=2`); none: one scenario.
        left_out: Stated scenarios that do not run.
        before, arguments, after: Scripts before the program, its arguments, scripts after it.
        reason: The reason why it is not compiled; empty if it is.
        is_other: It is for another architecture, or not for a kernel: no row of the result.
    """

    path: str
    kind: str
    root: str
    folder: str = ""
    sources: list[str] = field(default_factory=list)
    include_dirs: list[str] = field(default_factory=list)
    links: dict[str, str] = field(default_factory=dict)
    defines: list[str] = field(default_factory=list)
    tiling: str = ""
    dtypes: str = ""
    tests: list[str] = field(default_factory=list)
    test_header: str = ""
    test_has_tiling: bool = False
    test_defines: list[str] = field(default_factory=list)
    has_lists: bool = False
    has_auto_sync: bool = True
    scenarios: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    before: list[list[str]] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    after: list[list[str]] = field(default_factory=list)
    reason: str = ""
    is_other: bool = False


def included_names(text: str) -> list[str]:
    """Return the names of the headers that a source includes by `"..."`."""
    return _INCLUDED.findall(text)


def is_for_others(path: str) -> bool:
    """Return whether a file is for other architectures or experiments, or a test."""
    return bool(_OTHER_FOLDERS.search(f"/{path}")) or PurePosixPath(path).stem.endswith(("_apt", "_310p", "_arch35"))


def find_sources(tree: Tree) -> list[Source]:
    """Find the sources of a clone that can be compiled, in the order of the paths."""
    root = str(tree.root)
    found = [Source(path, "source", root, reason=reason) for path, reason in tree.problems.items()]
    kernels = _kernel_folders(tree)
    taken: set[str] = set()
    for path in tree.names:
        if PurePosixPath(path).name == "CMakeLists.txt":
            for source in _from_cmake(tree, path):
                found.append(source)
                taken.update(source.sources, *(fields["sources"] for fields in source.scenarios.values()))
    for path in tree.names:
        if "/op_kernel/" in f"/{path}" and path.endswith(".cpp"):
            if "/tests/" not in f"/{path}":
                found.append(_operator(tree, path, kernels))
        elif path.endswith(".asc") and path not in taken:
            found.append(_single(tree, path))
    return sorted(found, key=lambda source: source.path)


def _from_cmake(tree: Tree, path: str) -> Iterator[Source]:
    """Yield the programs and libraries of a CMakeLists.txt that have kernels, with their scenarios."""
    folder = str(PurePosixPath(path).parent)
    manual = tree.text(_joined(folder, "README.md"))
    steps = read_steps(manual, ARCHITECTURE)
    found = list(_targets(tree, path, manual, steps))
    if any(not source.is_other for source in found):
        code = "\n".join(tree.text(name) for name in tree.below(folder) if name.endswith(_CODE))
        scenarios = read_scenarios(tree.text(path), {**_DEFAULT_OPTIONS, **steps.options}, manual, code)
        for source in found:
            source.left_out = scenarios.left_out
        for name, value in scenarios.pairs:
            others = _targets(tree, path, manual, read_steps(manual, ARCHITECTURE, {name: value}))
            for source, other in zip(found, others, strict=False):
                source.scenarios[f"{name}={value}"] = {field: getattr(other, field) for field in _OF_SCENARIO}
    yield from found


def _targets(tree: Tree, path: str, manual: str, steps: Steps) -> Iterator[Source]:
    """Yield the programs and libraries of a CMakeLists.txt that have kernels, for the options of the steps."""
    folder = str(PurePosixPath(path).parent)
    text = tree.text(path)
    options = {**_DEFAULT_OPTIONS, **steps.options}
    programs = [(program, _present(tree, folder, program)) for program in read_programs(text, options)]
    programs = [(program, names) for program, names in programs if any(name.endswith(".asc") for name in names)] or [
        (program, names) for program, names in programs if _has_kernel(tree, names)
    ]
    if not programs:
        return
    # The default of a CMake option may list every architecture; the README states those of the example.
    named = sorted(set(re.findall(r"dav-\d{4}", manual) or re.findall(r"dav-\d{4}", text)))
    reason = f"for {', '.join(named)} only" if named and ARCHITECTURE not in named else ""
    executables = [entry for entry in programs if entry[0].is_executable]
    # Libraries of the same folder belong to its program.
    for program, names in executables or programs:
        extra = [name for other, more in programs if other is not program and not other.is_executable for name in more]
        yield _example(tree, folder, program, list(dict.fromkeys([*names, *extra])), steps, reason)


def _example(tree: Tree, folder: str, program: Program, names: list[str], steps: Steps, reason: str) -> Source:
    has_main = any(_has_main(tree, name) for name in names)
    dirs = [_inside(folder, name) for name in program.include_dirs]
    return Source(
        path=names[0],
        kind="example" if has_main else "kernel",
        root=str(tree.root),
        folder=folder,
        sources=names,
        include_dirs=list(dict.fromkeys(name for name in (folder, *dirs) if name is not None)),
        defines=[word for word in program.defines if re.fullmatch(r'\w+(?:=(?:[\w.\-]*|"[\w.\-]*"))?', word)],
        before=steps.before,
        arguments=steps.arguments,
        after=steps.after,
        reason=reason,
        is_other=bool(reason),
    )


def _single(tree: Tree, path: str) -> Source:
    """Return a source file that no CMakeLists.txt names."""
    folder = str(PurePosixPath(path).parent)
    steps = read_steps(tree.text(_joined(folder, "README.md")), ARCHITECTURE)
    return _example(tree, folder, Program(is_executable=True), [path], steps, "")


def _kernel_folders(tree: Tree) -> dict[str, str]:
    """Return the folders `op_kernel` of a clone by operator name; the build puts them next to each other."""
    # A folder may have only subfolders of architectures.
    folders = {
        path[: path.index("/op_kernel/")] for path in tree.names if "/op_kernel/" in path and "/tests/" not in path
    }
    found = {PurePosixPath(name).name: f"{name}/op_kernel" for name in sorted(folders)}
    if tree.below("common/inc/op_kernel"):
        found["inc"] = "common/inc/op_kernel"
    return found


def _linked(tree: Tree, home: str, kernels: dict[str, str]) -> dict[str, str]:
    """Return the folders of other kernels whose files a kernel includes, also indirectly."""
    linked: dict[str, str] = {}
    pending = [f"{home}/op_kernel"]
    while pending:
        for path in tree.below(pending.pop()):
            for name in included_names(tree.text(path)):
                for part in name.split("/")[:-1]:
                    if part in kernels and part not in linked:
                        linked[part] = kernels[part]
                        pending.append(kernels[part])
    return linked


def _operator(tree: Tree, path: str, kernels: dict[str, str]) -> Source:
    """Return a kernel in a folder `op_kernel`, with the definitions in its operator's folder."""
    root, stem = str(tree.root), PurePosixPath(path).stem
    home = path[: f"/{path}".rindex("/op_kernel/")].rstrip("/") or "."
    source = Source(path, "operator", root, folder=home, sources=[path])
    code = without_comments(tree.text(path))
    if not _KERNEL.search(code):
        return _other(source, "contains no kernel")
    if place := _OTHER_FOLDERS.search(f"/{path}"):
        return _other(source, f"in a folder for other architectures or experiments: {place[0].strip('/')}")
    definition = _definition(tree, path, home)
    if definition and (reason := _not_for_chip(definition, stem, home)):
        return _other(source, reason)
    names = [name for name in included_names(code) if _OTHER_FOLDERS.search(f"/{name}")]
    others = [name for name in included_names(code) if name not in names and not name.startswith("kernel_")]
    if names and not others and not (definition and set(_CHIPS) & set(definition.chips)):
        return _other(source, f"includes only headers for other architectures: {names[0]}")
    if "/opgen/template/" in f"/{path}":
        return _other(source, "a template of a generator with placeholders")
    if not definition and stem.endswith(("_apt", "_310p", "_arch35")):
        return _other(source, f"its name ends in {stem[stem.rindex('_') :]}: for other architectures")
    op_type = definition.op_type if definition else stem.title().replace("_", "")
    source.links = _linked(tree, home, kernels)
    homes = [home, *(str(PurePosixPath(path).parent) for path in source.links.values())]
    # Operators of a folder share structures of tiling data in a folder such as "foreach_utils".
    homes += [f"{PurePosixPath(home).parent}/{PurePosixPath(home).parent.name}_utils"]
    host = [path for folder in dict.fromkeys(homes) for path in _host_files(tree, folder)]
    source.tiling = tiling_header(_with_includes(tree, host, "_tiling.h").values(), op_type)
    source.dtypes = dtype_header(definition)
    tests = f"{home}/tests/ut/op_kernel"
    source.tests = [
        name
        for name in tree.below(tests)
        if PurePosixPath(name).match(f"{tests}/test_{stem}*.cpp") and not _OTHER_TEST.search(name)
    ][:1]
    cmake = "".join(tree.text(f"{home}/{name}") for name in ("op_kernel/CMakeLists.txt", "CMakeLists.txt"))
    source.has_auto_sync = has_auto_sync(cmake, tree.text(_CONFIG), op_type, _CHIPS[0])
    source.has_lists = bool(definition and definition.has_lists)
    texts = _with_includes(tree, source.tests)
    candidates = (
        f"{tests}/{stem}_tiling_def.h",
        *(name for name in texts if name.endswith("_tiling_def.h") and "/op_host/" not in name),
    )
    source.test_header = next((name for name in candidates if name in tree.files), "")
    source.test_has_tiling = bool(structures(source.tiling) & structures("\n".join(texts.values())))
    added = re.findall(r"AddOpTestCase\s*\([^)]*", tree.text(f"{tests}/CMakeLists.txt"))
    source.test_defines = list(dict.fromkeys(re.findall(r"-D(\w+(?:=[\w.]+)?)", " ".join(added[:1]))))
    source.include_dirs = list(dict.fromkeys(_operator_folders(tree, home, tests)))
    return source


def _definition(tree: Tree, path: str, home: str) -> Definition | None:
    """Return the definition of a kernel's operator; a folder `op_host` may have several operators in folders."""
    names = [name for name in tree.below(f"{home}/op_host") if name.endswith(".cpp")]
    own = f"{home}/op_host/{PurePosixPath(path).parent.name}/"
    chosen = [name for name in names if name.endswith("_def.cpp")] or [name for name in names if name.startswith(own)]
    found = (read_definition(tree.text(name)) for name in chosen)
    return next((definition for definition in found if definition is not None), None)


def structures(text: str) -> set[str]:
    """Return the names of the structures that a text defines."""
    return set(re.findall(r"\bstruct\s+(?:alignas\(\d+\)\s*)?(\w+)\s*\{", text))


def _with_includes(tree: Tree, paths: list[str], ending: str = "") -> dict[str, str]:
    """Return the code of files and of the headers with an ending that they include by a path relative to them."""
    texts: dict[str, str] = {}
    pending = list(paths)
    while pending:
        path = pending.pop(0)
        if path not in texts and path in tree.files:
            texts[path] = without_comments(tree.text(path))
            names = [name for name in included_names(tree.text(path)) if name.endswith(ending)]
            pending += [_joined(str(PurePosixPath(path).parent), name) for name in names]
    return texts


def _host_files(tree: Tree, home: str) -> list[str]:
    """Return the host sources of an operator, headers first, without those of other architectures."""
    names = [name for name in tree.below(f"{home}/op_host") if name.endswith((".h", ".cpp")) and "arch35" not in name]
    return sorted(names, key=lambda name: name.endswith(".cpp"))


def _operator_folders(tree: Tree, home: str, tests: str) -> Iterator[str]:
    """Folders of headers that kernels of a repository of operators use."""
    yield _joined(home, "op_kernel")
    yield tests
    yield "."
    parent = str(PurePosixPath(home).parent)
    names = ("tests/ut/op_kernel", "tests/ut/common", "common", "common/inc", "common/inc/op_kernel", parent)
    yield from (name for name in names if tree.below(name))


def _not_for_chip(definition: Definition, stem: str, home: str) -> str:
    chips = definition.chips
    chip = next((name for name in _CHIPS if name in chips), None)
    if chips and chip is None:
        return f"its definition adds {', '.join(sorted(chips))}, not {_CHIPS[0]}"
    others = {file for name, file in chips.items() if file and name not in _CHIPS}
    # Without a name in the definition, the file has the name of the operator's folder.
    if stem in others and stem != ((chip and chips[chip]) or PurePosixPath(home).name):
        return f"the kernel file of {', '.join(sorted(name for name, file in chips.items() if file == stem))}"
    return ""


def _other(source: Source, reason: str) -> Source:
    source.reason, source.is_other = reason, True
    return source


def _present(tree: Tree, folder: str, program: Program) -> list[str]:
    """Return the existing sources of a program, below the root of the clone."""
    names = (_inside(folder, name) for name in program.sources)
    return list(dict.fromkeys(name for name in names if name in tree.files))


def _has_kernel(tree: Tree, names: Iterable[str]) -> bool:
    return any(
        _KERNEL.search(without_comments(tree.text(name))) for name in names if name.endswith((".cpp", ".cc", ".cce"))
    )


def _has_main(tree: Tree, name: str) -> bool:
    return bool(re.search(r"\bmain\s*\(", without_comments(tree.text(name))))


def _joined(folder: str, name: str) -> str:
    return os.path.normpath(f"{folder}/{name}")


def _inside(folder: str, name: str) -> str | None:
    """Return a path of a CMakeLists.txt below the root of the clone; None if it is outside."""
    if not name or name.startswith(("/", "$")):
        return None
    joined = _joined(folder, name)
    return None if joined.startswith("..") else joined


def absolute(source: Source, name: str) -> Path:
    """Return the path of a file of a source."""
    return Path(source.root, name)
