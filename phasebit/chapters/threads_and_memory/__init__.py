"""Threads, memory and occupancy: what is measured, and how answers are checked."""
