# mypy: ignore-errors
# ruff: noqa
"""Kernels in TileLang, written from its documented API."""

import tilelang.language as T


def gemm(m, n, k, tile, dtype="float16", out="float16", total="float32", stages=3, threads=128,
         transposed=False):
    """C = A·B, or A·Bᵀ."""
    bm, bn, bk = tile
    shape_b, tile_b = ((n, k), (bn, bk)) if transposed else ((k, n), (bk, bn))

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor(shape_b, dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), threads=threads) as (bx, by):
            sa = T.alloc_shared((bm, bk), dtype)
            sb = T.alloc_shared(tile_b, dtype)
            sc = T.alloc_shared((bm, bn), out)
            local = T.alloc_fragment((bm, bn), total)
            T.clear(local)
            for step in T.Pipelined(T.ceildiv(k, bk), num_stages=stages):
                T.copy(A[by * bm, step * bk], sa)
                if transposed:
                    T.copy(B[bx * bn, step * bk], sb)
                else:
                    T.copy(B[step * bk, bx * bn], sb)
                T.gemm(sa, sb, local, transpose_B=transposed)
            T.copy(local, sc)
            T.copy(sc, C[by * bm, bx * bn])

    return main


def split(m, n, k, tile, parts, dtype="float16", threads=128):
    """C += A·B, k cut into parts that add their sums by atomics."""
    bm, bn, bk = tile
    each = k // parts

    @T.prim_func
    def main(A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(n, bn), T.ceildiv(m, bm), parts, threads=threads) as (bx, by, bz):
            sa = T.alloc_shared((bm, bk), dtype)
            sb = T.alloc_shared((bk, bn), dtype)
            sc = T.alloc_shared((bm, bn), "float32")
            local = T.alloc_fragment((bm, bn), "float32")
            T.clear(local)
            for step in T.Pipelined(T.ceildiv(each, bk), num_stages=2):
                T.copy(A[by * bm, bz * each + step * bk], sa)
                T.copy(B[bz * each + step * bk, bx * bn], sb)
                T.gemm(sa, sb, local)
            T.copy(local, sc)
            T.atomic_add(C[by * bm, bx * bn], sc)

    return main


def attention(heads, seq_q, seq_k, dim, bm, bn, stages=2, threads=128, causal=False):
    """O = softmax(Q·Kᵀ / √dim)·V, tile by tile with running maxima; P stays in registers."""
    scale = (1.0 / dim) ** 0.5 * 1.44269504
    kind = "float16"

    @T.prim_func
    def main(Q: T.Tensor((heads, seq_q, dim), kind), K: T.Tensor((heads, seq_k, dim), kind),
             V: T.Tensor((heads, seq_k, dim), kind), O: T.Tensor((heads, seq_q, dim), kind)):
        with T.Kernel(T.ceildiv(seq_q, bm), heads, threads=threads) as (bx, by):
            sq = T.alloc_shared((bm, dim), kind)
            sk = T.alloc_shared((bn, dim), kind)
            sv = T.alloc_shared((bn, dim), kind)
            so = T.alloc_shared((bm, dim), kind)
            s = T.alloc_fragment((bm, bn), "float32")
            p = T.alloc_fragment((bm, bn), kind)
            o = T.alloc_fragment((bm, dim), "float32")
            top = T.alloc_fragment((bm,), "float32")
            before = T.alloc_fragment((bm,), "float32")
            factor = T.alloc_fragment((bm,), "float32")
            part = T.alloc_fragment((bm,), "float32")
            total = T.alloc_fragment((bm,), "float32")
            T.copy(Q[by, bx * bm : (bx + 1) * bm, :], sq)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(T.ceildiv(seq_k, bn), num_stages=stages):
                T.copy(K[by, step * bn : (step + 1) * bn, :], sk)
                if causal:
                    for i, j in T.Parallel(bm, bn):
                        s[i, j] = T.if_then_else(bx * bm + i >= step * bn + j, 0,
                                                 -T.infinity("float32"))
                else:
                    T.clear(s)
                T.gemm(sq, sk, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[by, step * bn : (step + 1) * bn, :], sv)
                T.copy(top, before)
                T.fill(top, -T.infinity("float32"))
                T.reduce_max(s, top, dim=1, clear=False)
                for i in T.Parallel(bm):
                    top[i] = T.max(top[i], before[i])
                for i in T.Parallel(bm):
                    factor[i] = T.exp2(before[i] * scale - top[i] * scale)
                for i, j in T.Parallel(bm, bn):
                    s[i, j] = T.exp2(s[i, j] * scale - top[i] * scale)
                T.reduce_sum(s, part, dim=1)
                for i in T.Parallel(bm):
                    total[i] = total[i] * factor[i] + part[i]
                T.copy(s, p)
                for i, j in T.Parallel(bm, dim):
                    o[i, j] *= factor[i]
                T.gemm(p, sv, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bm, dim):
                o[i, j] /= total[i]
            T.copy(o, so)
            T.copy(so, O[by, bx * bm : (bx + 1) * bm, :])

    return main
