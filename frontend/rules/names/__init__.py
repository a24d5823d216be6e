"""Define rules for nodes with the name of an operator or of a PyTorch function."""
