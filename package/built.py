"""Implement `opforge pack --cann`: pack the results of a toolkit. Not run with a real toolkit."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from opforge.codegen.errors import MissingToolError, UserError
from opforge.package.cann.build import LOG, Build, MissingProgramError, StepError
from opforge.package.cann.texts import TextError
from opforge.package.cann.toolkit import ToolkitError, check_version, read_toolkit
from opforge.package.doctor.cann_environment import HOME_PATH

from .layout import CANN_VERSIONS, Contents, layout, write_tree


class BuildError(UserError):
    """A step of a build with CANN failed; the text contains the path of its log."""

    exit_code = 1


def built(contents: Contents, toolkit: Path, work: Path, jobs: int, say: Callable[[str], None]) -> Contents:
    """Return the package with libraries and kernels, built in the same way as by the installer on the target.

    Args:
        contents: A source release.
        toolkit: Folder of the toolkit.
        work: Folder with the finished steps; a later run for the same package continues there.
        jobs: Number of parallel commands.
        say: Receives one line per step.

    Raises:
        UserError: The folder is not a toolkit, or the toolkit is too old.
        MissingToolError: A program is missing.
        BuildError: A step failed.
    """
    try:
        found = read_toolkit(toolkit.resolve())
        if newer := check_version(found.version, CANN_VERSIONS):
            say(f"warning: {newer}")
        with tempfile.TemporaryDirectory(prefix="opforge-pack-") as folder:
            write_tree(Path(folder), layout(contents))
            package = Path(folder) / "packages" / "vendors" / contents.vendor
            tree = Build(package, work.resolve(), found, os.environ, jobs, say).run()
    except ToolkitError as error:
        given = HOME_PATH if Path(os.environ.get(HOME_PATH, "")) == toolkit else "--cann"
        raise UserError(f"{given}: {error}; use --no-build to pack the sources only") from error
    except MissingProgramError as error:
        raise MissingToolError(f"{error}; use --no-build to pack the sources only") from error
    except (StepError, TextError, OSError) as error:
        raise BuildError(str(error)) from error
    # The log contains paths of this machine.
    paths = [path for path in sorted(tree.rglob("*")) if path.is_file() and path.name != LOG]
    products = {path.relative_to(tree).as_posix(): path.read_bytes() for path in paths}
    return replace(contents, toolkit=found.version, products=products)
