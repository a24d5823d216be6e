"""The expression language of specs and its back ends."""
