"""Models in, models that use our operators out."""
