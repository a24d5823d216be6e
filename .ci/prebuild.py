"""Compile the library of the CPU twin into the folder that is the argument; setup.py packs it."""

import sys
from pathlib import Path

from opforge.twin.compiler.runtime_library import prebuild

prebuild(Path(sys.argv[1]))
