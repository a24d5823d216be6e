"""The rewrite engine, and the rewrite rules in folders by subject: one module for each rule."""
