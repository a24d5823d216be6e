"""Rewrite rules: one module for each."""
