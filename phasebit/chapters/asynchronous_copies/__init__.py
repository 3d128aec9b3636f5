"""Asynchronous copies: what is measured, and how answers are checked."""
