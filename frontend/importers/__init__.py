"""Read graphs of torch.fx."""
