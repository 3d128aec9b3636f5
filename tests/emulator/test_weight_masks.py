"""Zero-column masks of `tcgen05.mma.ws`, and the banks of D (PTX ISA 9.7.16.4.3, 9.7.16.10.5)."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.emulator.tensor_core.weight_stationary import SHIFTS, MaskError, banks, decode, rows


def mask(
    skipped: int, used: int, starts: tuple[int, ...] = (), zeros: tuple[int, ...] = (),
    shift: int = 0, on: int = 1,
) -> int:  # fmt: skip
    bits = on << 39 | (skipped - 1) << 40 | (used - 1) << 48 | shift << 56
    for bank, start in enumerate(starts):
        bits |= start << 8 * bank
    for bank in zeros:
        bits |= 1 << 32 + bank
    return bits


@pytest.mark.parametrize(("bits", "m", "width", "columns"), [
    (mask(2, 3), 128, 12, "...xx...xx.."), (mask(2, 3, zeros=(0,)), 128, 12, "xx...xx...xx"),
    (mask(2, 3, (1,)), 128, 12, "..xx...xx..."), (mask(2, 3, (2,)), 128, 12, ".xx...xx...x"),
    (mask(2, 3, (9,)), 128, 12, ".xx...xx...x"), (mask(2, 3, (1,), (0,)), 128, 12, "x...xx...xx."),
    (mask(2, 3, (7,), (0,)), 128, 12, "x...xx...xx."), (mask(1, 1), 128, 6, ".x.x.x"),
    (mask(256, 256), 128, 4, "...."), (mask(256, 256, zeros=(0,)), 128, 4, "xxxx"),
    (mask(2, 3, zeros=(0,), on=0), 128, 4, "...."),
])  # fmt: skip
def test_which_columns_are_zeros(bits: int, m: int, width: int, columns: str) -> None:
    found = decode(bits, m, 64, 0)
    assert "".join(".x"[int(each)] for each in found.zero[:width]) == columns
    assert found.zero.shape == (64,) and found.shift == 0


@pytest.mark.parametrize("m", [32, 64, 128])
def test_each_bank_begins_by_itself(m: int) -> None:
    many = 128 // m
    starts, zeros = (1, 0, 2, 1)[:many], (1, 3)
    bits = mask(2, 3, starts, zeros)
    found = decode(bits, m, 64, 0)
    for bank, part in enumerate(found.zero.reshape(many, -1)):
        alone = mask(2, 3, (starts[bank],), (0,) if bank in zeros else ())
        assert np.array_equal(part, decode(alone, 128, 64, 0).zero[: len(part)])


@pytest.mark.parametrize(("bits", "m", "most", "says"), [
    (1 << 36, 64, 32, "bits 36-38 must be 0"), (1 << 38, 64, 32, "bits 36-38 must be 0"),
    (1 << 62, 64, 32, "bits 62-63 must be 0"), (1 << 63, 64, 32, "bits 62-63 must be 0"),
    (mask(1, 1, shift=17), 32, 32, "a shift of 17 columns; with M = 32 it is 16 at most"),
    (mask(1, 1, shift=33), 64, 32, "a shift of 33 columns; with M = 64 it is 32 at most"),
    (mask(1, 1, shift=9), 64, 8,
     "a shift of 9 columns, but bits 30-31 of the instruction descriptor "
     "allow 8: 1 is 8, 2 is 16, 3 is 32"),
    (mask(1, 1, shift=16), 32, 16, ""), (mask(1, 1, shift=32), 64, 32, ""),
    (mask(1, 1, shift=8), 64, 8, ""),
])  # fmt: skip
def test_what_is_no_mask(bits: int, m: int, most: int, says: str) -> None:
    if not says:
        assert decode(bits, m, 64, most).shift == bits >> 56 & 63
        return
    with pytest.raises(MaskError) as raised:
        decode(bits, m, 64, most)
    assert str(raised.value) == f"zero-column mask descriptor {bits:#018x}: {says}"


@pytest.mark.parametrize("count", [1, 2, 4])
def test_where_d_lies(count: int) -> None:
    m, n = 128 // count, 64
    d = np.arange(m * n).reshape(m, n)
    held = banks(d, count)
    assert held.shape == (128, n // count)
    for i in range(count):
        part = d[:, i * n // count : (i + 1) * n // count]
        assert np.array_equal(held[i * m : (i + 1) * m], part)
    assert np.array_equal(rows(held, count), d)
    assert SHIFTS == {0: 0, 1: 8, 2: 16, 3: 32}
