"""Kernels that others' compilers made: their PTX must run right, and without an alarm."""
