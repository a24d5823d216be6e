"""`python -m opforge.codegen` is `opforge`."""

from .cli import main

main()
