"""Generate the files that CANN needs from the specification of an operator."""
