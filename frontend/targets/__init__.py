"""Predict ATC's errors for a model."""
