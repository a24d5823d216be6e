"""Search the constants of a plan for the minimum estimated time."""
