"""Barriers: what a reader's answers are checked with."""
