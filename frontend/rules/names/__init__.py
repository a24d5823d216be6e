"""Rules for nodes that have the name of an operator or of a function of PyTorch."""
