"""Tensor cores: what is measured beside cuBLAS and Triton, and how answers are checked."""
