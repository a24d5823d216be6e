"""Define rules for arithmetic on tensors."""
