"""Define the command lines that build a package, as lists of words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .kernels import Kernel
from .toolkit import CANN_8, CANN_2026, Toolkit

# Programs that a build requires. The compiler of an 8.x toolkit calls make for each kernel.
PROGRAMS = {CANN_8: ("cmake", "c++", "make", "opc"), CANN_2026: ("cmake", "c++", "make", "bash")}
TILING = "cust_opmaster_rt2.0"
# Path where the Python code of the toolkit searches for the tiling functions of a vendor in static shape compilation.
PYTHON_TILING = "op_impl/ai_core/tbe/op_tiling/liboptiling.so"
# Target of the 8.x project -> path of its library below the vendor folder.
LIBRARIES = {
    "cust_opsproto_rt2.0": "op_proto/lib/linux/{machine}/libcust_opsproto_rt2.0.so",
    TILING: "op_impl/ai_core/tbe/op_tiling/lib/linux/{machine}/libcust_opmaster_rt2.0.so",
    "cust_opapi": "op_api/lib/libcust_opapi.so",
    "cust_onnx_parsers": "framework/onnx/libcust_onnx_parsers.so",
}


class Folders(NamedTuple):
    """The folders of a build.

    Attributes:
        package: A copy of the vendor folder of the package, named after the vendor.
        vendor: The vendor name.
        work: Folder for all files that the build writes.
    """

    package: str
    vendor: str
    work: str

    @property
    def project(self) -> str:
        """Return the folder of the CMake projects in the copy.

        Its path does not depend on the folder in which the package was unpacked.
        """
        return f"{self.package}/scripts/cann/cmake"

    @property
    def host(self) -> str:
        """Return the build folder of CMake."""
        return f"{self.work}/host"

    @property
    def installed(self) -> str:
        """Return the installation folder of find_package(ASC)."""
        return f"{self.work}/installed"

    def scratch(self, kernel: Kernel) -> str:
        """Return the working folder of opc for one kernel; opc needs a separate folder."""
        return f"{self.work}/kernels/{kernel.name}"

    def parameters(self, kernel: Kernel) -> str:
        """Return the file that passes the dtypes of one kernel to opc."""
        return f"{self.scratch(kernel)}/{kernel.name}_param.json"


def configure(toolkit: Toolkit, folders: Folders) -> Sequence[str]:
    """Return the CMake command for the host libraries with an 8.x toolkit."""
    return [*_configure(toolkit, folders), f"-DASCEND_CANN_PACKAGE_PATH={toolkit.root}"]


def configure_asc(toolkit: Toolkit, folders: Folders, socs: Sequence[str]) -> Sequence[str]:
    """Return the CMake command for all products with a toolkit that has find_package(ASC)."""
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
    """Return the command for one target of a configured project; `all` is the default target of CMake."""
    return ["cmake", "--build", folders.host, "--target", target, "--parallel", str(jobs)]


def install_asc(folders: Folders) -> Sequence[str]:
    """Return the command that copies the results of a toolkit with find_package(ASC) to `Folders.installed`."""
    return ["cmake", "--install", folders.host]


def compile_kernel(folders: Folders, kernel: Kernel) -> Sequence[str]:
    """Return the opc command of an 8.x toolkit for one kernel."""
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
