"""Implement the rewrite engine, and define the rewrite rules in folders by subject, one module for each rule."""
