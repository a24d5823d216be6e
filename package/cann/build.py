"""Run the build: steps, stamps of finished steps, logs and results.

The work folder contains `key` (identifies the build), `stamps/` and `logs/` (one file per step), `package/` (a copy),
`tree/` (the products at their paths below the vendor folder), and `built.sums` and `built.json` (their SHA-256, written
last).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import commands
from .kernels import Kernel, KernelError, described, kernels_of, operator_list, soc_list
from .listing import listing, sums
from .texts import TextError, read_json
from .toolkit import CANN_8, Toolkit, tool_environment

BUILT, SUMS, LOG = "built.json", "built.sums", "build.log"
TBE = "op_impl/ai_core/tbe"
# Maximum log lines and characters in the message about a failed step.
MOST_LINES, MOST_CHARACTERS = 5, 500


class MissingProgramError(Exception):
    """A program that the build calls is missing; the text contains its name."""


class StepError(Exception):
    """A step failed; the text contains the step, the end of its output and the path of its log."""


@dataclass(frozen=True)
class Step:
    """One step of the build. It either finishes completely or is repeated.

    Attributes:
        name: Name of its stamp and its log.
        argv: The command.
        makes: Files that the command writes. opc may end with exit code 0 although it wrote none of them.
        subject: Additional text for the message about a failure.
        prepare: Creates the files that the command needs.
        collect: Copies its results into `tree/`; returns their paths there.
        cwd: Working folder of the command; created if it does not exist.
        variables: Environment variables for this command only.
    """

    name: str
    argv: Sequence[str]
    collect: Callable[[], Sequence[str]]
    makes: Sequence[Path] = ()
    subject: str = ""
    prepare: Callable[[], None] = lambda: None
    cwd: str = "."
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Build:
    """The input and the options of a build.

    Attributes:
        package: Vendor folder of the package, as its author packed it.
        work: Folder that keeps the finished steps for the next run.
        toolkit: The toolkit.
        environment: Variables of this process.
        jobs: Number of parallel commands.
        say: Receives one line per step.
    """

    package: Path
    work: Path
    toolkit: Toolkit
    environment: Mapping[str, str]
    jobs: int
    say: Callable[[str], None]

    def run(self) -> Path:
        """Run all steps that no earlier run finished; return the folder of the products.

        Raises:
            MissingProgramError: A program is missing; no step was started.
            StepError: A step failed; the results of the other steps are kept for the next run.
        """
        environment = tool_environment(self.toolkit, self.environment)
        for tool in commands.PROGRAMS[self.toolkit.generation]:
            wanted = environment.get("CXX") or "g++" if tool == "c++" else tool
            # The same variable can contain CMake options, or a launcher program before the compiler.
            if all(
                shutil.which(program, path=environment["PATH"]) is None for program in (wanted, wanted.split(" ")[0])
            ):
                raise MissingProgramError(
                    f"{wanted!r} is missing, expected it for the build of the package; install it"
                )
        self._begin(self.package.name)
        stages = self.stages()
        total = sum(len(steps) for steps in stages)
        digests: dict[str, str] = {}
        number = 0
        for steps in stages:
            with ThreadPoolExecutor(max_workers=self.jobs) as pool:
                runs = []
                for step in steps:
                    number += 1
                    runs.append(pool.submit(self._step, step, environment, f"{number}/{total}"))
                try:
                    for run in runs:
                        digests.update(run.result())
                except BaseException:
                    for run in runs:
                        run.cancel()
                    raise
        self._finish(digests, _operators(self.package))
        return self.work / "tree"

    def stages(self) -> Sequence[Sequence[Step]]:
        """Return the stages in order; the steps of one stage can run in parallel."""
        vendor = self.package.name
        folders = commands.Folders(str(self.work / "package" / vendor), vendor, str(self.work))
        of_generation = self._stages_8 if self.toolkit.generation == CANN_8 else self._stages_asc
        return of_generation(folders, _operators(self.package))

    def _begin(self, vendor: str) -> None:
        """Keep the results of the same package with the same toolkit; remove all others."""
        manifest = (self.package / "manifest.json").read_bytes()
        key = f"{hashlib.sha256(manifest).hexdigest()} {self.toolkit.compiler_version} {self.toolkit.root}\n"
        if not (self.work / "key").is_file() or (self.work / "key").read_text(encoding="utf-8") != key:
            if self.work.is_dir() and any(self.work.iterdir()) and not (self.work / "key").is_file():
                raise StepError(f"{self.work} exists and is not a folder of a build; rename it")
            shutil.rmtree(str(self.work), ignore_errors=True)
            _write(self.work / "key", "")
            try:
                shutil.copytree(str(self.package), str(self.work / "package" / vendor))
            except shutil.Error as error:  # contains one error per file
                raise OSError(error.args[0][0][2]) from error
            _write(self.work / "key", key)
        for name in ("stamps", "logs", "tree"):
            (self.work / name).mkdir(parents=True, exist_ok=True)

    def _step(self, step: Step, environment: Mapping[str, str], place: str) -> Mapping[str, str]:
        """Run a step and return the digests of its products, by path below the vendor folder."""
        stamp = self.work / "stamps" / step.name
        if stamp.is_file():
            kept = _kept(stamp)
            if kept is not None and all(_digest(self.work / "tree" / path) == kept[path] for path in kept):
                self.say(f"[{place}] {step.name}: already done")
                return dict(kept)
        self.say(f"[{place}] {step.name}")
        cwd = self.work / step.cwd
        cwd.mkdir(parents=True, exist_ok=True)
        log = self.work / "logs" / f"{step.name}.log"
        step.prepare()
        with log.open("w", encoding="utf-8") as stream:
            stream.write(f"{' '.join(step.argv)}\n")
            stream.flush()
            variables = {**environment, **step.variables}
            try:
                status = subprocess.call(
                    step.argv, cwd=str(cwd), env=variables, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream
                )
            except OSError as error:  # not executable, or its interpreter is missing
                raise StepError(_failure(step, f"{step.argv[0]} cannot be started: {error.strerror}", log)) from error
            if status != 0:
                cause = f"exit code {status}" if status > 0 else f"ended by {_signal_name(-status)}"
                stream.write(f"{cause}\n")
        absent = [path.name for path in step.makes if not path.is_file() or path.stat().st_size == 0]
        if status == 0 and absent:
            cause = f"exit code 0, but it wrote no {' and no '.join(absent)}"
        if status != 0 or absent:
            raise StepError(_failure(step, cause, log))
        try:
            products = {path: _digest(self.work / "tree" / path) for path in step.collect()}
        except (OSError, ValueError, KernelError) as error:
            raise StepError(_failure(step, str(error), log)) from error
        _write(stamp, json.dumps(products))
        return products

    def _stages_8(
        self, folders: commands.Folders, operators: Mapping[str, Mapping[str, Any]]
    ) -> Sequence[Sequence[Step]]:
        """Return steps: host libraries one by one, because CMake compiles in parallel; then kernels."""

        def library(target: str, path: str) -> Step:
            built = Path(folders.host) / f"lib{target}.so"

            def collect() -> Sequence[str]:
                places = [path.format(machine=self.toolkit.machine)]
                if target == commands.TILING:
                    # opc loads the tiling functions from the vendor folder that it receives.
                    _write(Path(folders.package) / commands.PYTHON_TILING, built.read_bytes())
                    places.append(commands.PYTHON_TILING)
                return [self._place(built, place) for place in places]

            return Step(f"lib{target}.so", commands.build_target(folders, target, self.jobs), collect, [built])

        return [
            [Step("configure", commands.configure(self.toolkit, folders), list)],
            *([library(target, path)] for target, path in commands.LIBRARIES.items()),
            [self._kernel(folders, kernel) for kernel in kernels_of(operators, self._chips())],
        ]

    def _chips(self) -> Mapping[str, Sequence[str]]:
        path = self.package / "scripts" / "cann" / "chips.json"
        chips: Mapping[str, Sequence[str]] = json.loads(path.read_text(encoding="utf-8"))
        return chips

    def _kernel(self, folders: commands.Folders, kernel: Kernel) -> Step:
        scratch = Path(folders.scratch(kernel))

        def prepare() -> None:
            shutil.rmtree(str(scratch), ignore_errors=True)
            (scratch / "out").mkdir(parents=True)
            _write(Path(folders.parameters(kernel)), json.dumps(kernel.parameters, indent=2))

        def collect() -> Sequence[str]:
            written = read_json(scratch / "out" / f"{kernel.name}.json")
            if written.get("binFileName", kernel.name) != kernel.name:
                raise KernelError(f"opc wrote binFileName {written['binFileName']!r}, expected {kernel.name!r}")
            products = []
            for soc in kernel.socs:
                place = f"{TBE}/kernel/{soc}/{kernel.op_file}/{kernel.name}"
                products.append(self._place(scratch / "out" / f"{kernel.name}.o", f"{place}.o"))
                text = json.dumps(described(written, soc, kernel.op_file), indent=1)
                _write(self.work / "tree" / f"{place}.json", text)
                products.append(f"{place}.json")
            return products

        return Step(
            kernel.name,
            commands.compile_kernel(folders, kernel),
            collect,
            [scratch / "out" / f"{kernel.name}{end}" for end in (".json", ".o")],
            kernel.subject,
            prepare,
            cwd=f"kernels/{kernel.name}",
            variables={"ASCEND_CUSTOM_OPP_PATH": folders.package, "HI_PYTHON": "python3", "TILINGKEY_PAR_COMPILE": "1"},
        )

    def _stages_asc(
        self, folders: commands.Folders, operators: Mapping[str, Mapping[str, Any]]
    ) -> Sequence[Sequence[Step]]:
        """Return steps that build everything with the CMake functions of the toolkit."""
        vendor = Path(folders.installed) / "packages" / "vendors" / folders.vendor
        places = [path.format(machine=self.toolkit.machine) for path in commands.LIBRARIES.values()]

        def collect() -> Sequence[str]:
            products = [self._place(vendor / place, place) for place in places]
            tiling = vendor / commands.PYTHON_TILING
            if not tiling.is_file():
                tiling = vendor / commands.LIBRARIES[commands.TILING].format(machine=self.toolkit.machine)
            products.append(self._place(tiling, commands.PYTHON_TILING))
            kernels = [path for path in sorted((vendor / TBE / "kernel").rglob("*")) if path.is_file()]
            products += [self._place(path, path.relative_to(vendor).as_posix()) for path in kernels]
            return products

        return [
            [Step("configure", commands.configure_asc(self.toolkit, folders, sorted(operators)), list)],
            [Step("libraries", commands.build_target(folders, "all", self.jobs), list)],
            [Step("kernels", commands.build_target(folders, "binary", self.jobs), list)],
            [Step("install", commands.install_asc(folders), collect, [vendor / place for place in places])],
        ]

    def _place(self, source: Path, path: str) -> str:
        """Copy a product to its path below `tree/`; return that path."""
        _write(self.work / "tree" / path, source.read_bytes())
        return path

    def _finish(self, digests: Mapping[str, str], operators: Mapping[str, Mapping[str, Any]]) -> None:
        """Write the lists of the kernels, the version of the compiler and the log; then `built.json`."""
        texts = {} if self.toolkit.generation != CANN_8 else self._lists(operators)
        for soc in operators:
            path = f"{TBE}/kernel/config/{soc}/binary_info_config.json"
            made = self.work / "tree" / path  # the 2026 toolkit writes its own list
            listed = json.loads(texts[path]) if path in texts else read_json(made) if made.is_file() else {}
            missing = sorted(set(operators[soc]) - set(listed))
            if missing:
                raise StepError(
                    f"lists: no kernel of {', '.join(missing)} for {soc} was built; see {self.work / 'logs'}"
                )
        texts["version.info"] = self._version_info()
        logs = sorted((self.work / "logs").glob("*.log"))
        texts[LOG] = "".join(f"== {log.stem}\n{log.read_text(encoding='utf-8', errors='replace')}" for log in logs)
        all_digests = dict(digests)
        for path, text in texts.items():
            _write(self.work / "tree" / path, text)
            all_digests[path] = _digest(self.work / "tree" / path)
        # Remove temporary files of interrupted writes.
        for left in sorted((self.work / "tree").rglob("*")):
            if left.is_file() and left.relative_to(self.work / "tree").as_posix() not in all_digests:
                left.unlink()
        text = listing({"toolkit": self.toolkit.version}, all_digests)
        _write(self.work / SUMS, sums({**all_digests, BUILT: hashlib.sha256(text.encode("utf-8")).hexdigest()}, BUILT))
        _write(self.work / BUILT, text)

    def _version_info(self) -> str:
        """Return the version.info of the package with this toolkit's compiler version.

        GE reads the first compiler_version.
        """
        text = (self.package / "version.info").read_text(encoding="utf-8").replace("release=source", "release=built")
        lines = [line for line in text.splitlines() if "compiler_version=" not in line]
        keys = ("compiler_version", "custom_opp_compiler_version")
        lines += [f"{key}={self.toolkit.compiler_version}" for key in keys]
        return "\n".join([*lines, f"cann_version={self.toolkit.version}", ""])

    def _lists(self, operators: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
        texts = {}
        for soc in operators:
            root = self.work / "tree" / TBE / "kernel" / soc
            found = {
                folder.name: [read_json(path) for path in sorted(folder.glob("*.json"))]
                for folder in sorted(root.iterdir())
            }
            for op_file, kernels in found.items():
                path = f"{TBE}/kernel/config/{soc}/{op_file}.json"
                texts[path] = json.dumps(operator_list(soc, op_file, kernels), indent=1)
            path = f"{TBE}/kernel/config/{soc}/binary_info_config.json"
            texts[path] = json.dumps(soc_list(soc, found), indent=1)
        return texts


def _operators(package: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return SoC directory -> operator type -> its description."""
    paths = sorted((package / TBE / "config").glob("*/aic-*-ops-info.json"))
    return {path.parent.name: read_json(path) for path in paths}


def _kept(stamp: Path) -> Mapping[str, str] | None:
    """Return the results of a step from its stamp; None for a damaged stamp (the step runs again)."""
    try:
        return dict(read_json(stamp))
    except TextError:
        return None


def _failure(step: Step, cause: str, log: Path) -> str:
    """Return the message about a failed step: the last log lines with an error, and the end of the log."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    errors = [number for number, line in enumerate(lines) if "error" in line.lower()][-MOST_LINES:]
    shown = sorted({*errors, *range(max(len(lines) - MOST_LINES, 0), len(lines))})
    place = f"{step.subject}: " if step.subject else ""
    title = f"{place}the step {step.name!r} failed: {cause}; its output, whose errors and end follow, is in {log}"
    return "\n".join([title, *(lines[number][:MOST_CHARACTERS] for number in shown)])


def _signal_name(number: int) -> str:
    """Return the name of a signal (11 is SIGSEGV); real-time signals have no name."""
    return next((known.name for known in signal.Signals if known == number), f"signal {number}")


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; empty if it does not exist."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def _write(path: Path, content: Any) -> None:
    """Write a file atomically: it is absent or complete, also after a power failure."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    with temporary.open("wb") as stream:
        stream.write(content.encode("utf-8") if isinstance(content, str) else content)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(path)
