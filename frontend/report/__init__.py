"""Print and draw the results of a conversion."""
