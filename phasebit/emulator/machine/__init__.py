"""Blocks, groups of threads, memory and barriers, and the scheduler that lets them take turns."""
