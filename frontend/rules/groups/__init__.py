"""Rules for sums over groups of rows."""
