"""What an H200 answered to questions that the PTX ISA leaves open; each in a line or two.

The recorded answers of thousands of programs are replayed by ``test_differential.py``; here is
what they taught, so that it can be read, and fails by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.copy_engine.tensor_copy import NAN
from phasebit.emulator.copy_engine.tensormap import Descriptor
from phasebit.emulator.errors import Fault
from phasebit.emulator.ops.bulk_tensor import REDUCED
from phasebit.emulator.tensor_core.arithmetic import WGMMA, accumulate
from proof import boxes, encodes
from proof.__main__ import KEPT
from proof.compare import emulate

ROWS: dict[str, Any] = {"strides": (64,), "element_strides": (1, 1)}


def room(d: Descriptor, at: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The bytes of shared memory after a box was loaded there; 0x5a is what no copy wrote."""
    answers = emulate(boxes.load("tensor_answer", d, at, 0, "shared::cta"))
    assert (answers[0] == 1).all(), "the mbarrier did not count the bytes of the box"
    return np.frombuffer(answers[1:].tobytes(), np.uint8)


class TestBoxes:
    """9.7.9.27.1 and 5.5."""

    def test_a_narrow_row_takes_the_span_of_its_swizzle(self) -> None:
        """5.5.7 does not say so; the mbarrier still counts the box's own bytes."""
        d = Descriptor("u32", 0, (16, 4), box=(4, 4), swizzle="64B", **ROWS)
        written = np.flatnonzero(room(d, (0, 0)).reshape(-1, 16)[:, 0] != 0x5A)
        assert d.nbytes == 64
        assert written.tolist() == [0, 4, 9, 13], "rows 64 bytes apart, then swizzled"

    def test_elements_outside_become_the_nan_7ff7(self) -> None:
        assert NAN == 0x7FF7
        for kind, count in (("f16", 8), ("f32", 4), ("f64", 2)):
            d = Descriptor(kind, 0, (count, 1), box=(count, 2), oob_fill="nan", **ROWS)
            assert (room(d, (0, 0))[16:32].view(np.uint16) == 0x7FF7).all()

    def test_rows_begin_at_whole_pieces(self) -> None:
        d = Descriptor("u32", 0, (16, 4), box=(4, 4), **ROWS)
        with pytest.raises(Fault, match="byte 4; this must be a multiple of 16 bytes"):
            room(d, (1, 0))

    def test_a_store_begins_at_no_negative_coordinate(self) -> None:
        d = Descriptor("u32", 0, (16, 4), box=(4, 4), **ROWS)
        with pytest.raises(Fault, match="no coordinate may be negative"):
            emulate(boxes.store("tensor_answer", d, (0, -1), 0))

    def test_a_store_writes_whole_pieces(self) -> None:
        """The tensor has 5 columns; the three after them are written too."""
        d = Descriptor("u32", 0, (5, 4), box=(8, 1), **ROWS)
        program = boxes.store("tensor_answer", d, (0, 0), 0)
        before = np.frombuffer(program.draw().tobytes(), np.uint32)
        after = np.frombuffer(emulate(program).tobytes(), np.uint32)
        tile = np.frombuffer(program.draw()[len(program.outputs) :].tobytes(), np.uint32)
        assert (after[:8] == tile[:8]).all()
        assert (after[8:] == before[8 : len(after)]).all()

    def test_element_strides_of_the_innermost_dimension_change_nothing(self) -> None:
        """As the driver's documentation says for tensors without interleave."""
        d = Descriptor("u32", 0, (16, 4), (64,), (4, 4), (1, 1))
        doubled = Descriptor("u32", 0, (16, 4), (64,), (4, 4), (2, 1))
        assert (room(d, (0, 0)) == room(doubled, (0, 0))).all()

    def test_an_interleaved_box_has_one_slice_of_channels(self) -> None:
        """5.5.6: dimensions are width, channels in slices, images."""
        d = Descriptor("f16", 0, (8, 3, 2), (128, 384), (8, 16, 2), (1, 1, 1), "16B")
        assert d.nbytes == 8 * 16 * 2

    def test_the_width_of_an_interleaved_box_is_strided(self) -> None:
        """Unlike the innermost dimension of other tensors."""
        d = Descriptor("f16", 0, (8, 3, 2), (128, 384), (8, 16, 2), (3, 1, 1), "16B")
        assert d.nbytes == 3 * 16 * 2
        sizes: Any = (8, 3, 2), (128, 384), (8, 8, 1)
        every, third = (
            room(Descriptor("f16", 0, *sizes, (n, 1, 1), "16B"), (0, 1, 0)) for n in (1, 3)
        )
        assert (third[:48].reshape(3, 16) == every[:128].reshape(8, 16)[::3]).all()

    def test_an_interleaved_window_has_one_slice_of_each_pixel(self) -> None:
        """im2col: however many channels its map names."""
        for channels in (8, 24):
            d = Descriptor("f16", 0, (5, 4, 3, 2), (96, 384, 1152), (channels, 6), (1,) * 4, "16B",
                           mode="im2col", lower=(0, 0), upper=(0, 0))  # fmt: skip
            program = boxes.load("tensor_answer", d, (3, 0, 1, 0), 0, "shared::cta", (0, 0))
            found = np.frombuffer(emulate(program)[1:].tobytes(), np.uint8)[:96].reshape(6, 16)
            tensor = np.frombuffer(program.draw().tobytes(), np.uint8)[384:]  # slices of channel 1
            for i, pixel in enumerate([(0, 3), (0, 4), (1, 0), (1, 1), (1, 2), (1, 3)]):
                begin = 96 * pixel[0] + 16 * pixel[1]
                assert (found[i] == tensor[begin : begin + 16]).all()

    def test_tf32_is_rounded_on_its_way_in(self) -> None:
        d = Descriptor("tf32", 0, (16, 4), box=(16, 4), **ROWS)
        bits = room(d, (0, 0))[:256].view(np.uint32)
        assert (bits & 0x1FFF == 0).all()

    def test_what_can_be_reduced(self) -> None:
        assert "f32" not in REDUCED["min"] and "s64" not in REDUCED["or"]
        assert {"f64", "tf32"} <= REDUCED["add"]
        d = Descriptor("f32", 0, (16, 4), box=(4, 4), **ROWS)
        with pytest.raises(Fault, match=r"has no \.max of f32"):
            emulate(boxes.store("tensor_answer", d, (0, 0), 0, "max"))


def sum_of(pairs: list[tuple[float, float]], c: float | None, kind: str) -> float:
    """One row times one column by wgmma's tensor core, f32."""
    a = np.array([[[x for x, _ in pairs]]], np.float64)
    b = np.array([[[y] for _, y in pairs]], np.float64)
    added = None if c is None else np.array([[[c]]])
    return float(accumulate(a, b, added, (kind, kind), "f32", WGMMA[kind])[0, 0, 0])


class TestRounding:
    """What 9.7.15.5 leaves open: each number is an H200's."""

    def test_25_bits_are_kept(self) -> None:
        assert sum_of([(2.0**12, 2.0**12), (1, 0.5), (1, 0.5)], 0.0, "f16") == 2.0**24 + 0
        assert sum_of([(2.0**12, 2.0**12), (1, 1), (1, 1)], 0.0, "f16") == 2.0**24 + 2
        assert sum_of([(2.0**12, 2.0**12), (1, -1.0)], 0.0, "f16") == 2.0**24 - 1

    def test_13_of_fp8(self) -> None:
        assert sum_of([(256, 32), (1, 1)], 0.0, "e5m2") == 8193
        assert sum_of([(256, 64), (1, 1)], 0.0, "e5m2") == 16384
        assert sum_of([(1, 1)], 2.0**13, "e5m2") == 8193

    def test_without_an_accumulator_small_sums_keep_their_bits(self) -> None:
        """scale-d = 0: products are aligned among themselves, not to 2^-126 and 25 bits."""
        eight = [(2.0**-76, 2.0**-76)] * 8
        assert sum_of(eight, None, "bf16") == 2.0**-149
        assert sum_of(eight, 2.0**-140, "bf16") == 2.0**-140

    def test_a_subnormal_has_the_least_exponent_of_its_own_format(self) -> None:
        """A of e4m3, B of e5m2: 2^-9 counts as 2^-6 there, and is 2^-9 here."""
        a = np.array([[[2.0**-9, 2.0**-6]]])
        for kinds in (("e4m3", "e5m2"), ("e5m2", "e5m2")):
            found = accumulate(a, np.array([[[1.0], [0.0]]]), None, kinds, "f32", WGMMA["e4m3"])
            assert found[0, 0, 0] == 2.0**-9


def test_the_driver_refuses_what_we_refuse() -> None:
    """6000 sets of arguments of cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col."""
    with np.load(KEPT / "encodes.npz") as file:
        refused = np.unpackbits(file["refused"])[: encodes.CASES].astype(bool)
        assert encodes.digest() == int(file["digest"]), "other arguments: record them again"
    ours = np.array([encodes.refused(d) for d in encodes.cases()])
    assert np.array_equal(ours, refused)
    assert 0.3 < refused.mean() < 0.5


def test_a_wrong_rule_would_be_seen() -> None:
    """Planted: the arguments are such that each rule of the check decides about some."""
    from phasebit.emulator.copy_engine.tensormap import problem

    words = ("multiple of", "allowed are 1 to 256", "swizzle", "window", "all of shared memory",
             "element stride", "floating-point", "2^32", "2^40",
             "at least 3 dimensions")  # fmt: skip
    said = [problem(d) for d in encodes.cases(3000)]
    for word in words:
        assert sum(word in text for text in said) >= 2, word


