"""Tables of dtypes, products and names, and modules that read them."""
