"""Search the constants of a plan for the least estimated time."""
