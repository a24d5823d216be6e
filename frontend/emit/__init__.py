"""Write the rewritten model in a form that ATC accepts."""
