"""Tensor memory: kernels for Blackwell on the emulator, and what finds their mistakes."""
