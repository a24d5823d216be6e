"""Write the rewritten model so that ATC reads it."""
