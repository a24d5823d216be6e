"""The installable package: the .run, its content and its scripts."""
