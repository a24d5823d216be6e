"""Define rules for sums over groups of rows."""
