"""The arithmetic of the tensor cores: D = A·B + C, down to the last bit.

NVIDIA does not say how a tensor core rounds; the PTX ISA (9.7.14.5.14) only
promises "at least single precision" and an unspecified order.  Experiments have
found one scheme behind every generation since Volta, the *fused sum with
truncation*:

1. The products are exact.  Beside each stands an exponent, the sum of its
   factors' exponents; a subnormal number has the least exponent of its own format.
2. A block of them, and the accumulator with them, is shifted to the largest of
   these exponents, at least -126.  What falls below ``fraction_bits`` bits after the
   point is cut off: no rounding, no sticky bit.  Where there is no accumulator (wgmma
   with scale-d 0) the products alone decide, also below -126.
3. The shifted numbers are added as integers, so in no order at all.
4. The sum is rounded once, to f32 towards zero or to f16 to nearest even.  A zero
   is always +0.

A longer k is done block after block, each with the previous result as its
accumulator.  The generations differ in the numbers of ``MODELS``.

    >>> a = np.array([[[2.0**24, 1.0, 1.0, 1.0]]])         # one warp, 1 × 4
    >>> b = np.ones((1, 4, 1))                             # 4 × 1
    >>> accumulate(a, b, np.zeros((1, 1, 1)), ("f16", "f16"), "f32")   # to nearest: 16777220
    array([[[16777218.]]])

Truncation makes sums a little too small in magnitude; a chain of additions in
f32 errs to both sides.

Sources: Fasi, Higham, Mikaitis, Pranesh, *Numerical behavior of NVIDIA tensor
cores*, PeerJ CS 7:e330, 2021 (the scheme, V100 to A100); Li et al., *FTTN:
Feature-Targeted Testing for Numerical Properties of NVIDIA & AMD Matrix
Accelerators*, arXiv:2403.00232; Khattak, Mikaitis, *Accurate Models of NVIDIA
Tensor Cores*, arXiv:2512.07004, and Xie et al., *MMA-Sim*, arXiv:2511.10909
(the numbers for Hopper and Blackwell, each checked there against the hardware).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from phasebit.emulator.numbers.formats import FORMATS
from phasebit.emulator.numbers.numerics import fma32, fma64, round32
from phasebit.emulator.ptx.types import Array


@dataclass(frozen=True)
class Model:
    """The numbers that set one generation's ``mma.sync`` apart."""

    fraction_bits: int
    """Bits kept after the point of the largest exponent."""
    block_bytes: int
    """Bytes of a row of A that are summed at once: 32 bytes are 16 products of f16."""
    fp8_as_f16: bool = False
    """Whether ``mma.sync`` has fp8 in name only: see :func:`_accumulate_fp8`."""
    result_bits: int = 23
    """Bits of the mantissa of an f32 result that are kept; the rest are zero."""


MODELS = {
    "turing": Model(fraction_bits=24, block_bytes=16),
    "ampere": Model(fraction_bits=24, block_bytes=16),
    "hopper": Model(fraction_bits=25, block_bytes=32, fp8_as_f16=True),
    "blackwell": Model(fraction_bits=25, block_bytes=32),
}
"""From arXiv:2511.10909; Hopper's confirmed here, bit by bit, against an H200's answers, dense and
sparse (``proof/sums.py``)."""

WGMMA = {
    "f16": Model(fraction_bits=25, block_bytes=32),
    "bf16": Model(fraction_bits=25, block_bytes=32),
    "tf32": Model(fraction_bits=25, block_bytes=32),
    "e4m3": Model(fraction_bits=13, block_bytes=32, result_bits=13),
    "e5m2": Model(fraction_bits=13, block_bytes=32, result_bits=13),
}
"""Hopper's ``wgmma``, by the type of A: its unit for fp8 keeps 13 bits, in sums and in results.

From arXiv:2511.10909; confirmed here, bit by bit: of 275,000 answers of an H200 none differs, for
whole numbers, exponents near and far, cancellation, both ends of the formats, infinities and NaNs
(``proof/warpgroups.py``).  Four multiplications in a row round like four alone.
"""

DEVICE = "hopper"
"""The generation that the emulator speaks for: the records of the book come from an H200."""

BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1}
AT_ONCE = 32
"""Warps computed together: their products, 2048 of f16 a warp, should stay in the CPU's cache."""

LEAST = -126
"""The least exponent to which a sum with an accumulator is aligned: that of f32."""

LEAST_ALONE = -400
"""Without one (``scale-d`` of wgmma): below all products, which are aligned among themselves."""


def accumulate(
    a: Array,
    b: Array,
    c: Array | None,
    kinds: tuple[str, str],
    result: str,
    model: Model = MODELS[DEVICE],
    step: int | None = None,
) -> Array:
    """D = A·B + C for the types that tensor cores round.

    ``a`` is [warps, m, k], ``b`` [warps, k, n] or, where each row has columns of its own,
    [warps, k, n, m]; ``c`` [warps, m, n], or None where nothing is added; all float64 and exact
    in their types: ``kinds`` those of A and B, ``result`` ("f32" or "f16") that of C and D.
    ``step``: products summed at once, where the instruction is made of smaller ones.
    Returns D, float64 [warps, m, n], exact in ``result``.  NaNs are NaN.

    This is the one place that knows how hardware rounds.
    """
    if len(a) > AT_ONCE:
        some = [slice(i, i + AT_ONCE) for i in range(0, len(a), AT_ONCE)]
        return np.concatenate(
            [
                accumulate(a[i], b[i], None if c is None else c[i], kinds, result, model, step)
                for i in some
            ]
        )
    if _is_exact(a, b, c, result, model):
        exact: Array = np.matmul(a, b) + (0.0 if c is None else c) + 0.0  # no -0
        return exact
    if BYTES[kinds[0]] == 1 and model.fp8_as_f16:
        assert c is not None
        return _accumulate_fp8(a, b, c, result, model)
    block = step or model.block_bytes // BYTES[kinds[0]]
    for start in range(0, a.shape[2], block):
        part = slice(start, start + block)
        c = _block(a[:, :, part], b[:, part], c, kinds, result, model)
    assert c is not None
    return c


EXACT = {"f32": 23, "f16": 10}
"""Bits that all whole numbers have which a type holds."""


def _is_exact(a: Array, b: Array, c: Array | None, result: str, model: Model) -> bool:
    """Whether nothing can be cut off or rounded, in whichever order it is added.

    So it is with whole numbers, where all terms together stay below what is kept after the point
    and in a result.
    """
    if b.ndim != 3 or a.size == 0 or not float(a.flat[0]).is_integer():
        return False
    bits = min(EXACT[result], model.fraction_bits, model.result_bits)
    most = a.shape[2] * np.abs(a).max() * np.abs(b).max() + (0.0 if c is None else np.abs(c).max())
    terms = (a, b) if c is None else (a, b, c)
    return bool(most < 2.0**bits) and all((x == np.rint(x)).all() for x in terms)


def _accumulate_fp8(a: Array, b: Array, c: Array, result: str, model: Model) -> Array:
    """fp8 on Hopper, whose ``mma.sync`` has no such unit (its ``wgmma`` has).

    The assembler turns every operand register of four fp8 numbers into two of f16: the two
    low numbers and the two high ones.  One f16 multiplication takes all the low pairs,
    starting from zero, another adds the high pairs, and an ordinary addition adds C.
    [seen in the machine code for sm_90, and in the H200's answers]
    """
    low = np.arange(a.shape[2]) % 4 < 2
    total = np.zeros_like(c)
    for pairs in (low, ~low):
        total = accumulate(a[:, :, pairs], b[:, pairs], total, ("f16", "f16"), result, model)
    form = np.float32 if result == "f32" else np.float16
    with np.errstate(all="ignore"):
        added: Array = (c.astype(form) + total.astype(form)).astype(np.float64)
    return added


def _block(
    a: Array, b: Array, c: Array | None, kinds: tuple[str, str], result: str, model: Model
) -> Array:
    """One block; infinities and NaNs as IEEE 754 has them: ∞·0 and ∞-∞ are NaN."""
    # [warps, k, n, m]: the longest extent last, where NumPy's inner loop runs
    left = np.ascontiguousarray(a.swapaxes(1, 2))[:, :, None, :]
    right = b[:, :, :, None] if b.ndim == 3 else b
    added = None if c is None else c.swapaxes(1, 2)
    terms = [left, right] if added is None else [left, right, added]
    if all(np.isfinite(x).all() for x in terms):
        return _fused_sum(left, right, added, kinds, result, model).swapaxes(1, 2)
    with np.errstate(invalid="ignore"):  # finite terms cannot reach the end of float64
        plain: Array = (left * right).sum(axis=1)
        if added is not None:
            plain = plain + added
    left, right, *rest = (np.where(np.isfinite(x), x, 0.0) for x in terms)
    finite = _fused_sum(left, right, rest[0] if rest else None, kinds, result, model)
    return np.where(np.isfinite(plain), finite, plain).swapaxes(1, 2)


def _fused_sum(
    left: Array, right: Array, addend: Array | None, kinds: tuple[str, str], result: str,
    model: Model,
) -> Array:  # fmt: skip
    """Products and accumulator aligned, truncated, added, rounded once; all finite.

    ``left`` is [warps, k, 1, m], ``right`` [warps, k, n, 1 or m], the rest [warps, n, m].
    """
    exponents = _exponent(left, kinds[0]) + _exponent(right, kinds[1])
    largest = exponents.max(axis=1)
    if addend is not None:
        largest = np.maximum(np.maximum(_exponent(addend, result), largest), LEAST)
    else:
        largest = np.maximum(largest, LEAST_ALONE)
    # in units of the last bit kept every term is an integer below 2**28, so the sum is exact
    unit = np.ldexp(1.0, model.fraction_bits - largest)
    products = left * right  # exact: at most 22 bits
    products *= unit[:, None]
    np.trunc(products, out=products)
    total = products.sum(axis=1)
    if addend is not None:
        total += np.trunc(addend * unit)
    return _round_sum(total / unit, result, model.result_bits)


def _exponent(x: Array, kind: str) -> Array:
    """The exponent of each number, not below that of subnormals; of zero, far below all others."""
    least = 1 - FORMATS[kind].bias
    exponent: Array = np.maximum(np.frexp(x)[1] - 1, least).astype(np.int16)
    exponent[x == 0] = -1000
    return exponent


def _round_sum(total: Array, result: str, bits: int) -> Array:
    """f16 to nearest even, f32 towards zero; but what is too large for it becomes infinite."""
    with np.errstate(over="ignore"):
        if result == "f16":
            rounded = total.astype(np.float16).astype(np.float64)
        else:
            single = round32(total, "rz")
            if bits < 23:
                single = (single.view(np.uint32) & np.uint32(-1 << (23 - bits) & 0xFFFFFFFF)).view(
                    np.float32
                )
            rounded = single.astype(np.float64)
    too_large = np.abs(total) >= 2.0 ** (FORMATS[result].bias + 1)
    return np.where(too_large, np.copysign(np.inf, total), rounded + 0.0)  # no -0


def accumulate_m8n8k4(a: Array, b: Array, c: Array, result: str) -> Array:
    """D = A·B + C for m8n8k4 of f16, which no tensor core since Turing's has.

    Same shapes as :func:`accumulate`.  The assembler writes f32 arithmetic in its place, each
    step rounded to nearest: for an f32 result a chain of multiply-adds from zero, then C is
    added; for an f16 result the pairs k = 0, 1 and k = 2, 3 are added to C one after the other.
    [read from the machine code for sm_90; seen on an H200]
    """
    m, n = c.shape[1:]
    left = np.repeat(a[:, :, None, :], n, axis=2).reshape(-1, 4).astype(np.float32)
    right = np.repeat(b.swapaxes(1, 2)[:, None], m, axis=1).reshape(-1, 4).astype(np.float32)
    total = c.ravel().astype(np.float32)

    def chain(ks: range) -> Array:
        s: Array = np.zeros(total.shape, np.float32)
        for k in ks:
            s = fma32(left[:, k], right[:, k], s)
        return s

    with np.errstate(all="ignore"):
        for ks in (range(4),) if result == "f32" else (range(2), range(2, 4)):
            total = total + chain(ks)
        rounded = total if result == "f32" else total.astype(np.float16)
    return rounded.astype(np.float64).reshape(c.shape)


def accumulate_f64(a: Array, b: Array, c: Array, rounding: str = "rn") -> Array:
    """D = A·B + C in f64: a chain of fused multiply-adds along k, from C on.

    Same shapes as :func:`accumulate`.  arXiv:2511.10909 found this order on every generation.
    """
    m, n = c.shape[1:]
    for k in range(a.shape[2]):
        left = np.repeat(a[:, :, k, None], n, axis=2)
        right = np.repeat(b[:, k, None, :], m, axis=1)
        c = fma64(left.ravel(), right.ravel(), c.ravel(), rounding).reshape(c.shape)
    return c


def accumulate_s32(a: Array, b: Array, c: Array, satfinite: bool = False) -> Array:
    """D = A·B + C in integers: exact, then wrapped to 32 bits or clamped (``satfinite``).

    ``a`` and ``b`` hold small integers of any type, ``c`` is int32.
    PTX ISA 9.7.14.5.14: without ``.satfinite`` the result wraps around.
    """
    products = np.matmul(a.astype(np.float32), b.astype(np.float32))  # exact below 2**24
    total: Array = products.astype(np.int64) + c
    if satfinite:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    wrapped: Array = total.astype(np.int32)
    return wrapped


def count_different(a: Array, b: Array, c: Array) -> Array:
    """D = C + the number of places in which a row of A and a column of B differ (``.xor.popc``).

    ``a`` and ``b`` hold zeros and ones.  As signs 1 and -1, equal places add 1 to their product
    and different ones take 1 away.
    """
    signs = accumulate_s32(1 - 2 * a.astype(np.int8), 1 - 2 * b.astype(np.int8), np.zeros_like(c))
    total: Array = c + (a.shape[2] - signs) // 2
    return total
