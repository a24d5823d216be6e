"""Run a model and compare results."""
