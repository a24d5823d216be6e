"""Run operators and kernels on the CPU twin with numpy arrays."""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from ctypes import byref, c_uint64, c_void_p
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from opforge.codegen.errors import UserError
from opforge.codegen.project import BUILTIN_ROOT, Project, find_project
from opforge.twin.acl import ACL_DTYPES, Array, Extent, runtime
from opforge.twin.build import INCLUDE, build_project, build_runtime, soc_properties
from opforge.twin.compiler import WARNINGS, Library, Unit, build, locked

if TYPE_CHECKING:
    from opforge.codegen.model import OpSpec

# The twin has vector cores only; task types with cube cores come with them.
TASK_TYPES = ("AIV_ONLY", "MIX_AIV_1_0")
C_INTEGERS = {
    "int8_t": ctypes.c_int8,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint64_t": ctypes.c_uint64,
}
# The options of the runtime are process wide: one run at a time.
_one_at_a_time = threading.RLock()


class AclnnError(Exception):
    """An aclnn function refused the call.

    Attributes:
        function: The aclnn function.
        status: Its status code: 161001, 161002, 561002, ...
    """

    def __init__(self, function: str, status: int, message: str) -> None:
        super().__init__(f"{function} returned {status}: {message}")
        self.function = function
        self.status = status
        self.message = message


@dataclass(frozen=True)
class Finding:
    """A mistake that the twin saw in a kernel.

    Attributes:
        kind: Name of the check.
        block: Core that was running, -1 when none.
        pipe: Pipe of the instruction.
        where: Source file and line.
        message: What happened, what was expected, how to repair it.
    """

    kind: str
    block: int
    pipe: str
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind} (block {self.block}, pipe {self.pipe}): {self.message}"


class FindingsError(Exception):
    """A kernel ran, but the twin saw mistakes; `findings` has all of them."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__("\n".join(map(str, findings)))
        self.findings = tuple(findings)


@dataclass(frozen=True)
class Report:
    """What a call moved; all sizes in bytes, summed over its kernel launches.

    Attributes:
        gm_bytes_read: Bytes that DMA read from global memory, every pass counted.
        gm_bytes_written: Bytes that DMA wrote.
        first_touch_bytes: Bytes of the 128-byte sectors that were touched at least once.
        minimal_bytes: Every input once and every output once.
        dma_count: DMA instructions.
        blocks: Cores of the largest launch.
        balance: Estimated time of the busiest core over the mean of all vector cores.
        traffic_balance: The same of DMA bytes.
        estimate_us: Time by the model of npu_model.json, launch overhead included; an estimate, nothing is measured.
        launch_us: The launch overhead in it.
        bound_us: Roofline bound of the problem: the minimal bytes at the bandwidth of global memory.
    """

    gm_bytes_read: int
    gm_bytes_written: int
    first_touch_bytes: int
    minimal_bytes: int
    dma_count: int
    blocks: int
    balance: float
    traffic_balance: float
    estimate_us: float
    launch_us: float
    bound_us: float

    @property
    def efficiency(self) -> float:
        """The bound over the estimate without the launch overhead; 0 when nothing ran."""
        running = self.estimate_us - self.launch_us
        return self.bound_us / running if running > 0 else 0.0


class Result(Mapping[str, Array]):
    """The outputs of a call by name, `report`, and `launches`: what each kernel launch reported, as plain data."""

    def __init__(self, outputs: dict[str, Array], launches: Sequence[Mapping[str, Any]]) -> None:
        self._outputs = outputs
        self.launches = tuple(launches)
        self.report = _total(launches)

    def __getitem__(self, name: str) -> Array:
        return self._outputs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._outputs)

    def __len__(self) -> int:
        return len(self._outputs)


@dataclass(frozen=True)
class _Built:
    specs: dict[str, OpSpec]
    opapi: ctypes.CDLL


@lru_cache
def _built(project: Project, soc: str) -> _Built:
    from opforge.codegen.loader import load_specs

    operators = build_project(project, [soc])
    runtime()
    specs = {spec.op_type: spec for spec in load_specs(project.spec_paths())}
    return _Built(specs, ctypes.CDLL(str(operators.opapi)))


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The numpy dtype of a dtype word of a spec."""
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def run(
    op_type: str,
    inputs: Mapping[str, Array | Sequence[int] | None],
    attrs: Mapping[str, Any] | None = None,
    *,
    soc: str = "Ascend910B1",
    out_dtypes: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Array | None] | None = None,
    function: str | None = None,
    strict: bool = True,
    seed: int = 0,
    threads: int = 0,
    project: Project | None = None,
) -> Result:
    """Call an operator on the twin through the two phases of its aclnn function.

    Args:
        op_type: `GroupedBiasAddGrad`, ...
        inputs: Arrays by parameter name; None or a missing key is a null pointer. Strided arrays stay strided.
        attrs: Attributes by name; missing ones have their defaults.
        soc: SoC that the twin plays.
        out_dtypes: dtypes of outputs that differ from the inferred ones.
        outputs: Arrays (strided ones too) to write into, instead of fresh ones; None is a null pointer.
        function: aclnn function; default: the first one that has a parameter for every given attribute.
        strict: Keep the shadow state that finds uninitialised reads and races; False is faster.
        seed: Order of the blocks and poison; 0 differs from call to call.
        threads: Blocks that run at once; 0 means one per core.
        project: The project of the operator; default: the current folder's, else the built-in operators.

    Raises:
        AclnnError: The function returned a status other than 0.
        FindingsError: The kernel made a mistake.
        UserError: A name, dtype or SoC is unknown.
    """
    soc_properties(soc)
    project = project or find_project()
    with _one_at_a_time:
        built = _built(project, soc)
        runtime().call("aclrtSetDevice", 0)  # contexts belong to threads
        if op_type not in built.specs:
            raise UserError(f"operator: got {op_type!r}, expected one of {', '.join(sorted(built.specs))}")
        call = _AclnnCall(built.specs[op_type], dict(inputs), dict(attrs or {}), function)
        for name, value in {"soc": soc, "strict": str(int(strict)), "threads": str(threads), "seed": str(seed)}.items():
            runtime().set_option(name, value)
        runtime().take_reports()
        results = call.execute(built.opapi, call.output_arrays(out_dtypes or {}, outputs or {}))
        reports = runtime().take_reports()
    return Result(results, reports)


def _findings(reports: Sequence[Mapping[str, Any]]) -> list[Finding]:
    keys = ("kind", "block", "pipe", "where", "message")
    return [Finding(**{key: found[key] for key in keys}) for report in reports for found in report["findings"]]


def _total(reports: Sequence[Mapping[str, Any]]) -> Report:
    sums = ("gm_bytes_read", "gm_bytes_written", "first_touch_bytes", "minimal_bytes", "dma_count")
    return Report(
        **{key: sum(report[key] for report in reports) for key in sums},
        blocks=max((report["blocks"] for report in reports), default=0),
        balance=max((report["balance"] for report in reports), default=0.0),
        estimate_us=sum((report["estimate_us"] for report in reports), 0.0),
        launch_us=sum((report["launch_us"] for report in reports), 0.0),
        bound_us=sum((report["bound_us"] for report in reports), 0.0),
        traffic_balance=max((report["traffic_balance"] for report in reports), default=0.0),
    )


def _overlaps(array: Array) -> bool:
    """Whether elements of a strided array share memory, or may do so."""
    reach = array.itemsize
    for stride, dim in sorted(
        (abs(stride), dim) for stride, dim in zip(array.strides, array.shape, strict=True) if dim > 1
    ):
        if stride < reach:
            return array.size > 0
        reach = stride * (dim - 1) + reach
    return False


class _AclnnCall:
    """One call of an aclnn function: arguments checked by name, then marshalled in the order of the signature."""

    def __init__(self, spec: OpSpec, inputs: dict[str, Any], attrs: dict[str, Any], function: str | None) -> None:
        self.spec = spec
        for kind, given, known in (("input", inputs, spec.inputs), ("attribute", attrs, spec.attrs)):
            names = [parameter.name for parameter in known]
            if unknown := sorted(set(given) - set(names)):
                raise UserError(f"{spec.op_type}: got {kind} {', '.join(unknown)}, expected some of {', '.join(names)}")
        self.inputs = {name: self._array(name, value) for name, value in inputs.items() if value is not None}
        self.attrs = attrs
        self.function = self._choose(function)

    def _array(self, name: str, value: Any) -> Array:
        array = np.asarray(value)
        if array.dtype not in ACL_DTYPES:
            raise UserError(f"{self.spec.op_type}: {name} has dtype {array.dtype}, which no aclTensor can have")
        return array

    def _choose(self, wanted: str | None) -> str:
        names = [candidate.function for candidate in self.spec.aclnn]
        if wanted is not None and wanted not in names:
            raise UserError(f"{self.spec.op_type}: got function {wanted!r}, expected one of {', '.join(names)}")
        for candidate in self.spec.aclnn:
            if wanted in {None, candidate.function} and set(self.attrs) <= set(candidate.params.values()):
                return candidate.function
        candidates = wanted or ", ".join(names)
        raise UserError(f"{self.spec.op_type}: {candidates}: got {', '.join(self.attrs)}, expected attributes it takes")

    def output_arrays(self, dtypes: Mapping[str, Any], given: Mapping[str, Array | None]) -> dict[str, Array | None]:
        """The output arrays: given ones, else fresh ones of the inferred shape and dtype."""
        names = [output.name for output in self.spec.outputs]
        if unknown := sorted((set(dtypes) | set(given)) - set(names)):
            raise UserError(
                f"{self.spec.op_type}: got output {', '.join(unknown)}, expected some of {', '.join(names)}"
            )
        for name, array in given.items():
            self._check_output(name, array)
        inferred = self._infer() if set(names) - set(given) else {}
        fresh = {name: np.zeros(shape, self._dtype(name, dtypes, dtype)) for name, (shape, dtype) in inferred.items()}
        return {name: given[name] if name in given else fresh[name] for name in names}

    def _check_output(self, name: str, array: Any) -> None:
        place = f"{self.spec.op_type}: {name}"
        if array is None:
            return
        if not isinstance(array, np.ndarray):
            raise UserError(f"{place}: got {type(array).__name__}, expected a numpy array to write into, or None")
        if array.dtype not in ACL_DTYPES:
            raise UserError(f"{place}: got dtype {array.dtype}, which no aclTensor can have")
        if not array.flags.writeable:
            raise UserError(f"{place}: got an array that cannot be written")
        if _overlaps(array):
            raise UserError(f"{place}: got strides {array.strides} under which elements share memory")

    def _dtype(self, name: str, wanted: Mapping[str, Any], inferred: np.dtype[Any]) -> np.dtype[Any]:
        if name not in wanted:
            return inferred
        with suppress(TypeError):
            dtype: np.dtype[Any] = np.dtype(wanted[name])
            if wanted[name] is not None and dtype in ACL_DTYPES:
                return dtype
        raise UserError(f"{self.spec.op_type}: {name}: got dtype {wanted[name]!r}, which no aclTensor can have")

    def _infer(self) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
        from opforge.codegen.semantics import Call, ShapeRefusal, TensorType, infer

        shapes = {name: tuple(array.shape) for name, array in self.inputs.items()}
        dtypes = {name: array.dtype.name for name, array in self.inputs.items()}
        types: dict[str, TensorType] = {}
        # A call that breaks a rule is for the function to refuse; its outputs are those of a call without attributes,
        # or else have the right rank and one element.
        for attrs in (self.attrs, {}):
            with suppress(ShapeRefusal):
                types = types or infer(self.spec, Call(shapes, dtypes, attrs), with_checks=False)
        fallback = next((array.dtype for array in self.inputs.values()), np.dtype("float32"))
        known: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
        for output in self.spec.outputs:
            found = types.get(output.name)
            complete = found is not None and found.shape is not None and all(dim >= 0 for dim in found.shape)
            one_element = (1,) * len(self.spec.cases[0].shapes[output.name])
            shape = tuple(found.shape) if found is not None and found.shape is not None and complete else one_element
            known[output.name] = (shape, numpy_dtype(found.dtype) if found is not None and found.dtype else fallback)
        return known

    def execute(self, opapi: ctypes.CDLL, outputs: dict[str, Array | None]) -> dict[str, Array]:
        """Marshal, call both phases, wait, copy the outputs back."""
        from opforge.codegen.views import aclnn_signature

        acl = runtime()
        written: list[tuple[Array, Extent, c_void_p]] = []
        with ExitStack() as stack:
            arguments: list[Any] = []
            for parameter in aclnn_signature(self.spec, self.function):
                if parameter.kind == "attr":
                    arguments.append(self._attribute(parameter.of, parameter.c_type))
                    continue
                array = outputs[parameter.of] if parameter.kind == "output" else self.inputs.get(parameter.of)
                if array is None:
                    arguments.append(c_void_p())
                elif parameter.kind == "host_list":
                    arguments.append(stack.enter_context(acl.int_array([int(value) for value in array])))
                else:
                    handle, pointer, extent = stack.enter_context(acl.tensor(array))
                    arguments.append(handle)
                    if parameter.kind == "output":
                        written.append((array, extent, pointer))
            stream = stack.enter_context(acl.stream())
            size, executor = c_uint64(), c_void_p()
            plan = getattr(opapi, f"{self.function}GetWorkspaceSize")
            self._checked(f"{self.function}GetWorkspaceSize", plan(*arguments, byref(size), byref(executor)))
            workspace = stack.enter_context(acl.memory(size.value))
            launch = getattr(opapi, self.function)
            self._checked(self.function, launch(workspace, size, executor, stream))
            self._wait(stream)
            for array, extent, pointer in written:
                self._copy_back(array, extent, pointer)
        return {name: array for name, array in outputs.items() if array is not None}

    def _checked(self, function: str, status: int) -> None:
        if status:
            raise AclnnError(function, status, runtime().message())

    def _wait(self, stream: c_void_p) -> None:
        acl = runtime()
        status = acl.library.aclrtSynchronizeStream(stream)
        if status == 0:
            return
        message = acl.message()
        if findings := _findings(acl.take_reports()):
            raise FindingsError(findings)
        raise AclnnError("aclrtSynchronizeStream", status, message)

    @staticmethod
    def _copy_back(array: Array, extent: Extent, pointer: c_void_p) -> None:
        if array.size == 0:
            return
        # The whole extent comes back: what the kernel did to the elements between those of the output is seen too.
        runtime().download(extent.data, pointer)
        if not np.shares_memory(array, extent.data):
            strides = tuple(stride * array.itemsize for stride in extent.strides)
            array[...] = np.lib.stride_tricks.as_strided(extent.data, array.shape, strides)

    def _attribute(self, name: str, c_type: str) -> Any:
        attribute = next(attribute for attribute in self.spec.attrs if attribute.name == name)
        value = self.attrs.get(name, attribute.default)
        if value is None:
            raise UserError(f"{self.spec.op_type}: attribute {name} is missing")
        place = f"{self.spec.op_type}: {name}"
        if c_type in C_INTEGERS:
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
                raise UserError(f"{place}: got {value!r}, expected an integer")
            converted = C_INTEGERS[c_type](int(value))
            # The two's complement of a negative number is what a uint64_t parameter gets for it.
            if int(value) != converted.value and int(value) != ctypes.c_int64(converted.value).value:
                raise UserError(f"{place}: got {value}, expected a number that {c_type} can hold")
            return converted
        if c_type == "char *":
            if not isinstance(value, str):
                raise UserError(f"{place}: got {value!r}, expected a string")
            return ctypes.c_char_p(value.encode())
        if c_type == "bool":
            if not isinstance(value, (bool, np.bool_)):
                raise UserError(f"{place}: got {value!r}, expected True or False")
            return ctypes.c_bool(bool(value))
        if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
            raise UserError(f"{place}: got {value!r}, expected a number")
        return ctypes.c_double(float(value))


def launch(
    source: str | os.PathLike[str],
    symbol: str,
    blocks: int,
    buffers: Sequence[Array] | Mapping[str, Array],
    tiling: bytes = b"",
    tiling_key: int = 0,
    soc: str = "Ascend910B1",
    task_type: str = "AIV_ONLY",
) -> list[Finding]:
    """Compile a kernel for the twin and run it.

    Args:
        source: A kernel source: a file, or the text itself.
        symbol: The kernel function. Its parameters are the buffers, then, if it has them, workspace and tiling.
        blocks: Cores to launch.
        buffers: Arrays, changed in place, in the order of the kernel's parameters.
        tiling: The tiling data.
        tiling_key: Selects the branch of TILING_KEY_IS.
        soc: SoC that the twin plays.
        task_type: Task type of a kernel that declares none: AIV_ONLY, MIX_AIV_1_0, ...

    Returns:
        What the twin found; empty means clean.

    Raises:
        CompileError: The source does not compile.
        UserError: An argument is wrong.
    """
    properties = soc_properties(soc)
    if task_type not in TASK_TYPES:
        raise UserError(f"task_type: got {task_type!r}, expected one of {', '.join(TASK_TYPES)}")
    arrays = list(buffers.values()) if isinstance(buffers, Mapping) else list(buffers)
    for index, array in enumerate(arrays):
        if not isinstance(array, np.ndarray) or array.dtype.hasobject:
            raise UserError(f"buffers[{index}]: got {type(array).__name__}, expected a numpy array of numbers")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise UserError(
                f"buffers[{index}]: got a strided or read-only array, expected a writeable C-contiguous one"
            )
    if not isinstance(tiling, (bytes, bytearray)):
        raise UserError(f"tiling: got {type(tiling).__name__}, expected bytes")
    for name, number, limit in (("blocks", blocks, 65535), ("tiling_key", tiling_key, 2**64 - 1)):
        least = 1 if name == "blocks" else 0
        if not isinstance(number, int) or not least <= number <= limit:
            raise UserError(f"{name}: got {number!r}, expected an integer from {least} to {limit}")
    library, text = _compile_kernel(source, int(properties["arch"]))
    pass_workspace, pass_tiling = _trailing_parameters(text, symbol, len(arrays))
    pointers = (c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
    sizes = (c_uint64 * len(arrays))(*(array.nbytes for array in arrays))
    with _one_at_a_time:
        answer = runtime().library.opforgeTwinLaunch(
            str(library).encode(),
            symbol.encode(),
            task_type.encode(),
            soc.encode(),
            blocks,
            tiling_key,
            bytes(tiling),
            len(tiling),
            pointers,
            sizes,
            len(arrays),
            int(pass_workspace),
            int(pass_tiling),
        )
    return _findings([json.loads(answer)])


def _compile_kernel(source: str | os.PathLike[str], arch: int) -> tuple[Path, str]:
    is_text = isinstance(source, str) and ("\n" in source or "{" in source)
    path = None if is_text else Path(source)
    if path is not None and not path.is_file():
        raise UserError(f"source: got {str(source)!r}, expected a kernel source file or the text of one")
    text = path.read_text(encoding="utf-8") if path else str(source)
    runtime_library = build_runtime()
    home = Project(BUILTIN_ROOT).build_dir / "twin" / "launch"
    name = hashlib.sha256(f"{path.resolve() if path else ''}\0{text}\0{arch}".encode()).hexdigest()[:16]
    with locked(home):
        if path is None:
            path = home / f"{name}.cpp"
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
        # A kernel may ignore its parameters; a lost address-space qualifier stays an error.
        flags = (*WARNINGS, "-Wno-unused", "-Wno-unused-parameter", "-Wcast-qual", f"-I{INCLUDE}")
        unit = Unit(path.resolve(), home / f"{name}.o", flags, str(path))
        library = Library(
            home / f"{name}.so",
            (unit,),
            (f"-L{runtime_library.parent}", f"-Wl,-rpath,{runtime_library.parent}", "-lopforge_twin"),
        )
        build([library])
    return library.path, text


def _trailing_parameters(text: str, symbol: str, buffers: int) -> tuple[bool, bool]:
    """Whether the kernel takes workspace and tiling behind its buffers."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found = re.search(rf"__global__[^;{{}}()]*\b{re.escape(symbol)}\s*\(([^)]*)\)", code)
    if found is None:
        raise UserError(f"symbol: got {symbol!r}, expected the name of a __global__ function of the source")
    names = [parameter.split()[-1].lstrip("*&").lower() for parameter in found[1].split(",") if parameter.strip()]
    extra = names[buffers:]
    if len(extra) == 2 and buffers > 0:
        return True, True
    has_workspace = bool(extra) and "workspace" in extra[0]
    has_tiling = len(extra) > has_workspace and "tiling" in extra[-1]
    if len(names) < buffers or len(extra) != has_workspace + has_tiling:
        raise UserError(
            f"buffers: got {buffers}, expected one for each parameter of {symbol} but a last `workspace` and `tiling`: "
            f"{', '.join(names)}"
        )
    return has_workspace, has_tiling
