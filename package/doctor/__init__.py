"""Find out which operators CANN finds, and why not."""
