"""Specs as the templates print them."""
