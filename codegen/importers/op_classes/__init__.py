"""Read the classes of OpDef."""
