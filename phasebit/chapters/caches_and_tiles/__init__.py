"""Caches and tiles on a processor: what is measured, and how answers are checked."""
