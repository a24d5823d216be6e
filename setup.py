"""List the packages, and make a wheel of the sources, or of a platform with the CPU twin's library compiled."""

import os
import shutil
from pathlib import Path

from setuptools import Distribution, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

# The operator folders go along as data, so that an installed wheel has the layout of a project folder
# (codegen/project.py).
DATA = ("op_host", "op_kernel", "op_plugin", "op_proto")
# The folder that `prebuild` of twin/compiler/runtime_library.py wrote; `bash build.sh --wheel` sets it.
PREBUILT = os.environ.get("OPFORGE_PREBUILT")


class FreshBuild(build_py):
    """Copies into an empty folder; by default, setuptools packs remaining files of earlier builds in build/lib."""

    def run(self) -> None:
        """Remove the copy of an earlier build, then copy."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()
        if PREBUILT and not self.editable_mode:
            target = Path(self.build_lib, "opforge", "twin", "prebuilt")
            target.mkdir()
            for suffix in (".so", ".so.json"):
                shutil.copy(Path(PREBUILT, f"libopforge_twin{suffix}"), target)


class Platform(Distribution):
    """Has a compiled file if the library is given, so that the wheel is one of a platform."""

    def has_ext_modules(self) -> bool:
        """Return whether files differ between platforms."""
        return bool(PREBUILT)

    def has_data(self) -> bool:
        """Return whether an editable installation has data files, which setuptools otherwise omits."""
        return bool(self.data_files)


class Wheel(bdist_wheel):
    """Names the platform only: every Python 3 can use the library."""

    def get_tag(self) -> tuple[str, str, str]:
        """Return the tags of the file name."""
        return ("py3", "none", super().get_tag()[2])


setup(
    distclass=Platform,
    cmdclass={"build_py": FreshBuild, "bdist_wheel": Wheel},
    packages=["opforge", *(f"opforge.{name}" for name in (*find_packages("src/opforge"), *DATA))],
)
