"""Rules for gradients of batch normalization."""
