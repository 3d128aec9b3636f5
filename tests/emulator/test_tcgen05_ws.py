"""tcgen05.mma.ws, each rule named after its section of the PTX ISA; whole numbers, exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers import swizzle
from phasebit.emulator.numbers.formats import encode
from phasebit.emulator.tensor_core import weight_stationary
from phasebit.emulator.tensor_core.instruction_descriptors import decode
from phasebit.emulator.tensor_core.instruction_descriptors import encode as instruction
from tests.emulator.tensor_kernels import Gemm

Array = NDArray[Any]
SCHEDULES = ("eager", "late", "random")
SHAPES = [(m, n) for m in (32, 64, 128) for n in (64, 128, 256)]


class Weights(Gemm):
    """A product with .ws; ``extra``: rows of B after the N that count."""

    def __init__(
        self, m: int, n: int, kind: str = "bf16", mask: str = "", extra: int = 0, shift: int = 0,
        collector: str = "", changes: dict[str, str] | None = None, **more: Any,
    ) -> None:  # fmt: skip
        form = {"bf16": "f16", "s8": "i8", "e4m3": "f8f6f4"}[kind]
        d = "s32" if kind == "s8" else "f32"
        super().__init__(
            form, m, n + extra, kind, kind, d, width=2 if kind == "bf16" else 1,
            changes={"tcgen05.mma.cta": "tcgen05.mma.ws.cta", "%p4 SCALE": f"%p4 {mask}",
                     " [%r4], A_OPERAND": f"{collector} [%r4], A_OPERAND", **(changes or {})},
            **more,
        )  # fmt: skip
        self.idesc = instruction(form, m, n, kind, kind, d) | shift << 30


def placed(d: Array) -> Array:
    """The cells (128, N M / 128) that hold D (M, N): layouts D, E and G, cell by cell."""
    m, n = d.shape
    width = n * m // 128
    cells = np.zeros((128, width), d.dtype)
    for i in range(m):
        for j in range(n):
            cells[i + m * (j // width), j % width] = d[i, j]
    return cells


def whole(m: int, n: int, k: int = 16) -> tuple[Array, Array]:
    rng = np.random.default_rng(m + n)
    return rng.integers(-4, 5, (m, k)).astype(float), rng.integers(-4, 5, (n, k)).astype(float)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_9_7_16_10_5_where_d_lies(m: int, n: int, schedule: str) -> None:
    """M = 128: layout D; 64: E, the second half of N in lanes 64-127; 32: G, four quarters."""
    a, b = whole(m, n)
    cells, found = Weights(m, n).run(encode("bf16", a), encode("bf16", b), schedule=schedule)
    assert not found.findings, found.findings[0]
    right = placed(a @ b.T)
    assert np.array_equal(cells[:, : right.shape[1]].view(np.float32), right)


@pytest.mark.parametrize(("m", "n"), [(32, 256), (64, 64), (128, 64)])
def test_9_7_16_10_9_3_d_is_added(m: int, n: int) -> None:
    a, b = whole(m, n)
    old = np.random.default_rng(1).integers(-99, 99, (m, n)).astype(np.float32)
    before = np.zeros((128, 256), np.float32)
    before[:, : n * m // 128] = placed(old)
    cells, _ = Weights(m, n).run(encode("bf16", a), encode("bf16", b), before.view(np.uint32))
    right = placed(old + a @ b.T)
    assert np.array_equal(cells[:, : right.shape[1]].view(np.float32), right)


@pytest.mark.parametrize("kind", ["s8", "e4m3"])
def test_9_7_16_10_9_3_other_kinds(kind: str) -> None:
    a, b = whole(64, 64, 32)
    bits = [x.astype(np.int8).view(np.uint8) if kind == "s8" else encode(kind, x) for x in (a, b)]
    cells, _ = Weights(64, 64, kind).run(*bits)
    form = np.int32 if kind == "s8" else np.float32
    assert np.array_equal(cells[:, :32].view(form), placed((a @ b.T).astype(form)))


@pytest.mark.parametrize("buffer", range(4))
@pytest.mark.parametrize("use", ["fill", "use", "lastuse", "discard"])
def test_9_7_16_10_9_3_the_collector_changes_nothing(buffer: int, use: str) -> None:
    a, b = whole(32, 64)
    gemm = Weights(32, 64, collector=f".collector::b{buffer}::{use}")
    cells, _ = gemm.run(encode("bf16", a), encode("bf16", b))
    assert np.array_equal(cells[:, :16].view(np.float32), placed(a @ b.T))


def masked(m: int, n: int, bits: int, extra: int = 0, shift: int = 0) -> Array:
    """The columns of a product that come out zero; A and B have no zero."""
    a, b = np.ones((m, 16)), np.arange(1.0, n + extra + 1)[:, None] * (np.arange(16) == 0)
    gemm = Weights(m, n, mask=", %rd19", extra=extra, shift=shift,
                   changes={"A_IN_TENSOR": f"mov.b64 %rd19, {bits};"})  # fmt: skip
    cells, found = gemm.run(encode("bf16", a), encode("bf16", b))
    assert not found.findings
    return weight_stationary.rows(cells[:, : n * m // 128].view(np.float32), 128 // m)[0]


def descriptor(
    starts: tuple[int, ...], firsts: tuple[int, ...], on: int, skip: int, use: int, shift: int
) -> int:
    """As the examples of the PTX ISA list them: the highest number first."""
    bits = on << 39 | skip << 40 | use << 48 | shift << 56
    for i, (start, first) in enumerate(zip(starts[::-1], firsts[::-1], strict=True)):
        bits |= start << 8 * i | first << 32 + i
    return bits


EXAMPLES = [
    (128, descriptor((0,) * 4, (0,) * 4, 0, 4, 3, 0), [""]),
    (128, descriptor((0,) * 4, (0,) * 4, 1, 2, 3, 0), ["11100001110000"]),
    (64, descriptor((0,) * 4, (0, 0, 0, 1), 1, 2, 3, 0), ["11100001110000111",
                                                        "00001110000111 0000"]),
    (32, descriptor((1, 2, 1, 0), (0, 0, 1, 1), 1, 2, 3, 2),
     ["00001110000111", "0000111000011", "111000011100", "1110000111000"]),
]  # fmt: skip


@pytest.mark.parametrize(("m", "bits", "says"), EXAMPLES, ids=["1", "2", "3", "4"])
def test_9_7_16_4_3_the_examples_of_the_isa(m: int, bits: int, says: list[str]) -> None:
    """The lowest columns of each sub-mask as the PTX ISA prints them, the first at the right."""
    n, shift = 128, bits >> 56
    found = masked(m, n, bits, extra=8 if shift else 0, shift=1 if shift else 0)
    for bank, text in zip(found.reshape(len(says), -1), says, strict=True):
        marks = text.replace(" ", "")[::-1]
        assert [int(x == 0) for x in bank[: len(marks)]] == [int(c) for c in marks]
    kept = found != 0
    assert np.array_equal(found[kept], (np.arange(n) + shift + 1.0)[kept])


WRONG = [
    (64, 64, 40 << 56, "a shift of 40 columns; with M = 64 it is 32"),
    (32, 64, 17 << 56, "a shift of 17 columns; with M = 32 it is 16"),
    (64, 64, 9 << 56, "bits 30-31 of the instruction descriptor allow 8"),
    (64, 64, 1 << 36, "bits 36-38 must be 0"),
]


@pytest.mark.parametrize(("m", "n", "bits", "says"), WRONG, ids=[w[3][:24] for w in WRONG])
def test_9_7_16_4_3_wrong_masks_are_explained(m: int, n: int, bits: int, says: str) -> None:
    with pytest.raises(EmulatorError, match=says):
        masked(m, n, bits, extra=32, shift=1)


@pytest.mark.parametrize(("old", "new", "says"), [
    ("ld.param.u32 %r6, [idesc];", "mov.b32 %r6, 0x08040490;", "with .ws M is 32, 64 or 128"),
    ("tcgen05.mma.cta", "add.u32 %r4, %r4, 0x100000; tcgen05.mma.cta", "D begins at lane 16"),
])  # fmt: skip
def test_9_7_16_4_2_wrong_operands_are_explained(old: str, new: str, says: str) -> None:
    gemm = Weights(64, 64)
    gemm.text = gemm.text.replace(old.replace("mma.cta", "mma.ws.cta"),
                                  new.replace("mma.cta", "mma.ws.cta"))  # fmt: skip
    zero = np.zeros((64, 16), np.uint16)
    with pytest.raises(EmulatorError, match=says):
        gemm.run(zero, zero)


def test_9_7_16_10_5_a_in_tensor_memory_lies_in_every_bank() -> None:
    """M = 32: four banks of lanes, each multiplies what it holds."""
    fill = "\n".join(f"add.u32 %r4{i}, %r1, {i};" for i in range(8)) + "add.u32 %r20, %r5, 256;"
    fill += "tcgen05.st.sync.aligned.32x32b.x8.b32 [%r20], {%r40,%r41,%r42,%r43,%r44,%r45,%r46,"
    fill += "%r47}; add.u32 %r50, %r4, 256;"
    gemm = Weights(32, 64, changes={"A_IN_TENSOR": fill, "A_OPERAND": "[%r50]"})
    _, b = whole(32, 64)
    cells, found = gemm.run(np.zeros((32, 16), np.uint16), encode("bf16", b))
    assert not found.findings, found.findings[0]
    words = np.arange(128, dtype=np.uint32)[:, None] + np.arange(8, dtype=np.uint32)
    a = (words.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(float)
    right = np.concatenate([a[32 * i : 32 * i + 32] @ b[16 * i : 16 * i + 16].T for i in range(4)])
    assert np.allclose(cells[:, :16].view(np.float32), right, rtol=1e-6, atol=0)


def test_9_7_16_10_3_majorness_and_swizzle_go_together() -> None:
    """tf32 turned around: only 128B with atoms of 32B; the others: never that."""
    for kind, element, width, pattern in (("tf32", "tf32", 4, swizzle.B128),
                                          ("f16", "bf16", 2, swizzle.B128_ATOM_32B)):  # fmt: skip
        gemm = Gemm(kind, 128, 64, element, element, "f32", width=width, pattern=swizzle.B128,
                    mn_b=True, steps=4)  # fmt: skip
        if pattern is not swizzle.B128:
            gemm.descriptors[1] ^= 3 << 61
        zero = np.zeros((128, gemm.k * 4), f"u{width}")
        with pytest.raises(EmulatorError, match="tf32 takes 128B with atoms of 32B"):
            gemm.run(zero, zero[:64])


def test_9_7_16_10_1_an_n_major_b_of_8_bits_has_an_n_of_16s() -> None:
    bits = instruction("f8f6f4", 64, 24, "e4m3", "e4m3", "f32", mn_major_b=True)
    says = "with an N-major B of 8 bits or fewer it is a multiple of 16"
    with pytest.raises(ValueError, match=says):
        decode(bits, "f8f6f4")


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_9_7_16_6_one_thread_of_a_warp_issues_it(schedule: str) -> None:
    """A warp that issues it with all threads multiplies 32 times."""
    all_threads = {
        "@!%p2 bra WAIT;\n    setp.ne": "@!%p1 bra WAIT;\n    setp.ne",
        "mbarrier.init.shared::cta.b64 [done], 1": "mbarrier.init.shared::cta.b64 [done], 32",
    }
    a, b = whole(64, 64)
    for changes, many in (({}, False), (all_threads, True)):
        gemm = Weights(64, 64, changes=changes)
        _, found = gemm.run(encode("bf16", a), encode("bf16", b), schedule=schedule)
        said = [one.message for one in found.findings if "let one thread do it" in one.message]
        assert any("tcgen05.mma.ws" in message for message in said) == many
