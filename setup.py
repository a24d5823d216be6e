"""List the packages, and make a wheel of the sources alone."""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

# The folders of the repository are the sub-packages of `opforge`; the operator folders go along as data, so that an
# installed wheel has the layout of a project folder (codegen/project.py).
FOLDERS = ("cli", "codegen", "frontend", "op_host", "op_kernel", "op_plugin", "op_proto", "package", "twin")
INNER = sorted(
    path.parent for folder in FOLDERS for path in Path(folder).rglob("__init__.py") if path.parent != Path(folder)
)


class FreshBuild(build_py):
    """Copies into an empty folder; setuptools would pack whatever an earlier build left in build/lib."""

    def run(self) -> None:
        """Remove the copy of an earlier build, then copy."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(
    cmdclass={"build_py": FreshBuild},
    packages=[f"opforge.{'.'.join(Path(folder).parts)}" for folder in (*FOLDERS, *INNER)],
    package_dir={f"opforge.{folder}": folder for folder in FOLDERS},
)
