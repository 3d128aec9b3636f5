"""The tools that are scored: a module each."""
