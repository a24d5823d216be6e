"""The tables of dtypes, products and names, and the modules that read them."""
