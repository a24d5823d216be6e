"""Define the rewrite rules, one module for each."""
