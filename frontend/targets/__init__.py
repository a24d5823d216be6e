"""Check a model for ATC, and write it for ATC or as GE IR."""
