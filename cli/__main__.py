"""`python -m opforge.cli` is `opforge`."""

from .main import main

main()
