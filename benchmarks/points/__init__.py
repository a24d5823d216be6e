"""Evaluate published kernel times with the time model of the CPU twin."""
