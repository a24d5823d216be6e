"""Prepare specs for the templates."""
