"""From the specification of an operator to the files that CANN needs of it."""
