"""Loop nests from linear algebra and convolution, to try an analysis on: name -> nest.

Each as somebody might write it down, some in an order that suits no array. A constant in an index
makes rows longer than what is used of them: ``B[k][j + 256]`` with 256 values of j has rows of
512 floats.
"""

from __future__ import annotations

from phasebit.nests.loops import Nest, parse

EXAMPLES: dict[str, Nest] = {
    "contraction": parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=50, j=60, k=80, l=100),
    "product ijk": parse("C[i][j] += A[i][k] * B[k][j]", i=240, j=240, k=240),
    "product jki": parse("C[i][j] += A[i][k] * B[k][j]", j=240, k=240, i=240),
    "product, rows of 512": parse("C[i][j] += A[i][k] * B[k][j + 256]", i=256, j=256, k=256),
    "blocks, rows of 512": parse("C[i][j] += A[i][k] * B[k][j + 256]", i=256, k=256, j=256).tile(
        k=64, j=64
    ),
    "blocks, rows of 272": parse("C[i][j] += A[i][k] * B[k][j + 16]", i=256, k=256, j=256).tile(
        k=64, j=64
    ),
    "AᵀB": parse("C[i][j] += A[k][i] * B[k][j]", i=240, j=240, k=240),
    "ABᵀ": parse("C[i][j] += A[i][k] * B[j][k]", i=240, j=240, k=240),
    "AᵀBᵀ": parse("C[i][j] += A[k][i] * B[j][k]", i=240, j=240, k=240),
    "matrix × vector, transposed": parse("y[i] += A[j][i] * x[j]", i=1500, j=1500),
    "batched": parse("C[n][i][j] += A[n][i][k] * B[n][k][j]", n=24, i=80, j=80, k=80),
    "batched, interleaved": parse("C[n][i][j] += A[i][k][n] * B[k][j][n]", n=24, i=80, j=80, k=80),
    "tensor × matrix": parse("C[i][j][r] += T[k][i][j] * F[k][r]", i=60, j=60, r=48, k=60),
    "MTTKRP": parse("M[i][r] += T[j][k][i] * F[j][r] * G[k][r]", i=60, r=40, j=60, k=60),
    "convolution, stride 2": parse(
        "O[f][y][x] += I[c][2*y + r][2*x + s] * W[f][c][r][s]", f=32, y=28, x=28, c=32, r=3, s=3
    ),
    "convolution, channels last": parse(
        "O[f][y][x] += I[y + r][x + s][c] * W[r][s][c][f]", f=32, y=28, x=28, r=3, s=3, c=64
    ),
    "depthwise": parse("O[c][y][x] += I[y + r][x + s][c] * W[c][r][s]", c=96, y=56, x=56, r=3, s=3),
}
"""At least a few million iterations each, more than L1 holds, and a second to watch."""
