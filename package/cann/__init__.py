"""Builds a package with a CANN toolkit, on the machine that has one. Not run with a real toolkit."""
