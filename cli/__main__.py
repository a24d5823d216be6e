"""Run the command line for `python -m opforge.cli`."""

from .main import main

main()
