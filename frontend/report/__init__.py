"""Print and draw what a conversion did."""
