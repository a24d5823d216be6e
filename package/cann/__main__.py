"""Run the build for `python3 -m cann`, which the installer of a package calls.

A target has no typer, so this package uses the standard library only.

Exit codes: 0 built, 1 a step failed, 2 no usable toolkit, 3 a program is missing.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from .build import Build, MissingProgramError, StepError
from .texts import TextError, printable
from .toolkit import ToolkitError, read_toolkit


def main() -> int:
    """Build the package named on the command line."""
    parser = argparse.ArgumentParser(prog="cann", description=__doc__)
    parser.add_argument("--package", type=Path, required=True, help="vendor folder of the package")
    parser.add_argument("--work", type=Path, required=True, help="folder that keeps what is done for the next run")
    parser.add_argument("--toolkit", type=Path, required=True, help="folder of the toolkit")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="commands at once")
    parser.add_argument("--quiet", action="store_true", help="print errors only")
    chosen = parser.parse_args()

    def say(line: str) -> None:
        if not chosen.quiet:
            print(printable(line) + "\n", end="", flush=True)

    try:
        toolkit = read_toolkit(chosen.toolkit.resolve())
        Build(chosen.package.resolve(), chosen.work.resolve(), toolkit, os.environ, chosen.jobs, say).run()
    except ToolkitError as error:
        print(printable(f"--toolkit: {error}"), file=sys.stderr)
        return 2
    except (MissingProgramError, StepError) as error:
        print(printable(str(error)), file=sys.stderr)
        return {MissingProgramError: 3, StepError: 1}[type(error)]
    except (OSError, TextError) as error:
        print(printable(f"the build stopped: {error}"), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
