"""Checks of the book's exercises, one module a chapter."""
