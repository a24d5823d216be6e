"""Define rules for gradients of embeddings: standard nodes that add rows to a table."""
