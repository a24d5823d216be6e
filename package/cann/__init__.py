"""Build a package with a CANN toolkit. Not run with a real toolkit."""
