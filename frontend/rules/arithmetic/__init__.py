"""Rules for arithmetic on tensors."""
