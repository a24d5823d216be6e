"""Implement the rewrite engine, and define the rewrite rules: one module for each rule, in folders by subject."""
