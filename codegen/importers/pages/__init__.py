"""Read the text of pages."""
