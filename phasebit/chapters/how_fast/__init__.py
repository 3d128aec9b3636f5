"""Rates of a pipeline: what a reader's answers are checked with."""
