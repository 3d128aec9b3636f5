# mypy: ignore-errors
"""C = A · Bᵀ in Triton, f16 in, f32 out: tiles and sums are named, roles and rings are not."""

import triton
import triton.language as tl


@triton.jit
def matmul(
    a,
    b,
    c,
    M,
    N,
    K,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    BLOCKS: tl.constexpr,
):
    """a, b, c: tensor maps with boxes of a tile; each of BLOCKS makes one tile after another."""
    rows = tl.cdiv(M, BM)
    tiles = rows * tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles, BLOCKS, flatten=True, warp_specialize=True):
        row, column = tile % rows * BM, tile // rows * BN
        total = tl.zeros((BM, BN), tl.float32)
        for k in range(tl.cdiv(K, BK)):
            total = tl.dot(a.load([row, k * BK]), b.load([column, k * BK]).T, total)
        c.store([row, column], total)
