"""The products that the chapter is measured by: M, N, K, and where they come from."""

from __future__ import annotations

from typing import NamedTuple


class Shape(NamedTuple):
    """C (m, n) = A (m, k) · B (n, k)ᵀ in bf16."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        if self.m == self.n == self.k:
            return f"{self.m}³"
        return f"{self.m} × {self.n} × {self.k}"

    @property
    def flop(self) -> int:
        """Floating-point operations: a multiply and an add for each term."""
        return 2 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        """What must at least be moved: A, B and C once."""
        return 2 * (self.m * self.k + self.n * self.k + self.m * self.n)


ASKED = (
    Shape(8192, 8192, 8192), Shape(4096, 4096, 4096), Shape(2048, 2048, 2048),
    Shape(16384, 4096, 4096), Shape(4096, 14336, 4096), Shape(512, 14336, 4096),
    Shape(1024, 1024, 1024), Shape(1000, 1000, 1000), Shape(128, 14336, 4096),
    Shape(5000, 5000, 5000), Shape(16, 14336, 4096),
)  # fmt: skip
"""Eleven: squares, round and not, and products of a layer of 4096 and 14336."""

LAYERS = {
    Shape(64, 10240, 8192): "queries, keys and values of Llama 3 70B, 64 requests",
    Shape(256, 4096, 14336): "the second half of the MLP of Llama 3 8B, 256 requests",
    Shape(2048, 6144, 4096): "queries, keys and values of Llama 3 8B, 2048 tokens",
    Shape(4096, 768, 3072): "the second half of the MLP of BERT base, 4096 tokens",
    Shape(1024, 28672, 8192): "the first half of the MLP of Llama 3 70B, 1024 tokens",
}
"""Five that transformer layers ask for, chosen before any of them was timed."""

SHAPES = (*ASKED, *LAYERS)
