"""Define the command lines that build a package, as lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .kernels import Kernel
from .toolkit import CANN_8, CANN_2026, Toolkit

# Programs that a build calls. The compiler of an 8.x toolkit calls make for each kernel.
PROGRAMS = {CANN_8: ("cmake", "c++", "make", "opc"), CANN_2026: ("cmake", "c++", "make", "bash")}
TILING = "cust_opmaster_rt2.0"
# Where the toolkit's Python code looks for a vendor's tiling functions when it compiles for a static shape.
PYTHON_TILING = "op_impl/ai_core/tbe/op_tiling/liboptiling.so"
# Target of the 8.x project -> where its library goes below the vendor folder.
LIBRARIES = {
    "cust_opsproto_rt2.0": "op_proto/lib/linux/{machine}/libcust_opsproto_rt2.0.so",
    TILING: "op_impl/ai_core/tbe/op_tiling/lib/linux/{machine}/libcust_opmaster_rt2.0.so",
    "cust_opapi": "op_api/lib/libcust_opapi.so",
    "cust_onnx_parsers": "framework/onnx/libcust_onnx_parsers.so",
}


class Folders(NamedTuple):
    """Where a build works.

    Attributes:
        package: A copy of the vendor folder of the package, under the vendor's name.
        vendor: That name.
        work: Everything that the build writes.
    """

    package: str
    vendor: str
    work: str

    @property
    def project(self) -> str:
        """Return the CMake projects, of the copy: a next run finds them there, wherever it was unpacked."""
        return f"{self.package}/scripts/cann/cmake"

    @property
    def host(self) -> str:
        """Where CMake builds."""
        return f"{self.work}/host"

    @property
    def installed(self) -> str:
        """Where find_package(ASC) installs."""
        return f"{self.work}/installed"

    def scratch(self, kernel: Kernel) -> str:
        """Where opc works on one kernel; it takes a folder for itself."""
        return f"{self.work}/kernels/{kernel.name}"

    def parameters(self, kernel: Kernel) -> str:
        """Return the file that gives opc the dtypes of one kernel."""
        return f"{self.scratch(kernel)}/{kernel.name}_param.json"


def configure(toolkit: Toolkit, folders: Folders) -> Sequence[str]:
    """CMake for the host libraries of an 8.x toolkit."""
    return [*_configure(toolkit, folders), f"-DASCEND_CANN_PACKAGE_PATH={toolkit.root}"]


def configure_asc(toolkit: Toolkit, folders: Folders, socs: Sequence[str]) -> Sequence[str]:
    """CMake for everything, with a toolkit that has find_package(ASC)."""
    return [
        *_configure(toolkit, folders),
        f"-DASC_DIR={toolkit.asc_dir}",
        f"-DASCEND_CANN_PACKAGE_PATH={toolkit.root}",
        f"-DASCEND_COMPUTE_UNIT={';'.join(socs)}",
        f"-DCMAKE_INSTALL_PREFIX={folders.installed}",
    ]


def _configure(toolkit: Toolkit, folders: Folders) -> Sequence[str]:
    return [
        "cmake",
        *("-S", f"{folders.project}/{toolkit.generation}", "-B", folders.host),
        "-DCMAKE_BUILD_TYPE=Release",
        f"-DOPFORGE_PACKAGE={folders.package}",
        f"-DOPFORGE_VENDOR={folders.vendor}",
    ]


def build_target(folders: Folders, target: str, jobs: int) -> Sequence[str]:
    """Return one target of a configured project; `all` is what CMake builds unasked."""
    return ["cmake", "--build", folders.host, "--target", target, "--parallel", str(jobs)]


def install_asc(folders: Folders) -> Sequence[str]:
    """Collect the results of a toolkit with find_package(ASC) below `Folders.installed`."""
    return ["cmake", "--install", folders.host]


def compile_kernel(folders: Folders, kernel: Kernel) -> Sequence[str]:
    """Opc of an 8.x toolkit for one kernel."""
    return [
        "opc",
        f"{folders.package}/op_impl/ai_core/tbe/{folders.vendor}_impl/dynamic/{kernel.op_file}.py",
        f"--main_func={kernel.op_file}",
        f"--input_param={folders.parameters(kernel)}",
        f"--soc_version={kernel.chip}",
        f"--output={folders.scratch(kernel)}/out",
        "--impl_mode=high_performance,optional",
        "--simplified_key_mode=0",
        "--op_mode=dynamic",
    ]
