"""`python -m opforge.codegen` is `opforge`."""

from opforge.codegen.cli import main

main()
