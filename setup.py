"""What pyproject.toml cannot say: a wheel is made of the sources alone."""

import shutil

from setuptools import setup
from setuptools.command.build_py import build_py


class FreshBuild(build_py):
    """Copies into an empty folder; setuptools would pack whatever an earlier build left in build/lib."""

    def run(self) -> None:
        """Remove the copy of an earlier build, then copy."""
        if not self.editable_mode:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


setup(cmdclass={"build_py": FreshBuild})
