"""Forms of instructions that libraries have and few kernels: each by the PTX ISA's words."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from phasebit import process, toolchain
from phasebit.emulator import PtxError
from phasebit.emulator.errors import Fault
from phasebit.launching.launch import Module
from tests.emulator.tensor_kernels import HEAD

KERNEL = HEAD + """
.visible .entry kernel(.param .u64 in, .param .u64 out)
{
    .reg .b32 %r<20>; .reg .b64 %rd<9>; .reg .f32 %f<9>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 16;
    add.u64 %rd1, %rd1, %rd4; add.u64 %rd2, %rd2, %rd4;
    ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd1];
    BODY
    ret;
}
"""


def answer(body: str, given: np.ndarray) -> np.ndarray:
    out = np.zeros_like(given)
    text = KERNEL.replace("BODY", body)
    assert not Module(text)["kernel"].launch(1, len(given), [given, out]).findings
    return out


def words(n: int) -> np.ndarray:
    return np.random.default_rng().integers(0, 1 << 32, (n, 4), np.uint32)


POLICIES = {
    "fractional": "createpolicy.fractional.L2::evict_first.b64 %rd5, 0.5;",
    "range": "createpolicy.range.global.L2::evict_last.L2::evict_unchanged.b64 "
             "%rd5, [%rd1], 16, 32;",
    "cvt": "mov.b64 %rd6, 7; createpolicy.cvt.L2.b64 %rd5, %rd6;",
}  # fmt: skip
STORES = {
    "L2::cache_hint.v4.b32": "{%r2, %r3, %r4, %r5}",
    "L1::evict_first.L2::cache_hint.v4.b32": "{%r2, %r3, %r4, %r5}",
    "L2::cache_hint.b32": "%r2",
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("store", STORES)
def test_9_7_9_12_a_store_takes_a_policy_of_the_caches(store: str, policy: str) -> None:
    """`st{…}{.level::cache_hint} [a], b, cache-policy`; 9.7.9.18 makes the policy."""
    given = words(32)
    body = f"{POLICIES[policy]} st.global.{store} [%rd2], {STORES[store]}, %rd5;"
    out = answer(body, given)
    stored = 4 if ".v4" in store else 1
    assert np.array_equal(out[:, :stored], given[:, :stored]) and not out[:, stored:].any()


@pytest.mark.parametrize("store", ["L2::cache_hint.b32 [%rd2], %r2", "b32 [%rd2], %r2, %rd5"])
def test_9_7_9_12_a_policy_and_its_word_belong_together(store: str) -> None:
    with pytest.raises(PtxError, match="needs an address and a value"):
        answer(f"st.global.{store};", words(32))


FENCES = "release.sync_restrict::shared::cta", "acquire.sync_restrict::shared::cluster"


@pytest.mark.parametrize("fence", FENCES)
def test_9_7_13_4_a_fence_of_shared_memory_alone(fence: str) -> None:
    given = words(32)
    body = f"fence.{fence}.cluster; st.global.v4.b32 [%rd2], {{%r2, %r3, %r4, %r5}};"
    assert np.array_equal(answer(body, given), given)


def test_9_7_13_4_a_fence_of_shared_memory_has_one_direction() -> None:
    with pytest.raises(PtxError, match=r"sync_restrict is \.release"):
        answer("fence.acquire.sync_restrict::shared::cta.cluster;", words(32))


FORMATS = {"f16": (10, -14, 13, 65504.0), "bf16": (7, -126, 16, 2.0**128 - 2.0**120)}


def carried(bits: int, random: int, kind: str) -> int:
    """A finite f32 as `kind`: as many of the highest bits that are cut as there are random ones,
    and these, added as integers; where they carry, the next number away from zero."""
    mantissa, smallest, taken, largest = FORMATS[kind]
    x = Fraction(float(np.uint32(bits).view(np.float32)))
    sign, size = bits >> 31 << 15, abs(x)
    exponent = smallest
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - mantissa)
    kept = int(size / step)
    cut = int((size / step - kept) * 2**taken)
    kept += (cut + random) >> taken
    if kept * step > Fraction(largest):
        kept = int(Fraction(largest) / step) if size <= largest else -1
    if kept < 0 or size > largest:
        return sign | (0x7BFF if kind == "f16" else 0x7F7F)
    field = kept if exponent == smallest else kept + ((exponent - smallest) << mantissa)
    return sign | field


@pytest.mark.parametrize("kind", FORMATS)
def test_9_7_9_21_rounded_by_random_bits(kind: str) -> None:
    """`.rs`: towards zero or away from it by the carry of the bits that are cut plus `rbits`."""
    given = words(512)
    near = np.random.default_rng().integers(-30, 20, (512, 2))
    given[:, :2] = given[:, :2] & 0x807FFFFF | ((near + 127) << 23).astype(np.uint32)
    given[:4, 0] = 0, 0x80000000, 0x7F800000, 0xFF800000
    given[4:6, 0] = 0x3F800001, 0x00000001
    body = f"mov.b32 %f1, %r2; mov.b32 %f2, %r3; cvt.rs.satfinite.{kind}x2.f32 %r6, %f1, %f2, %r4;"
    out = answer(f"{body} st.global.b32 [%rd2], %r6;", given)[:, 0]
    taken = FORMATS[kind][2]
    top = 0x7BFF if kind == "f16" else 0x7F7F
    for (a, b, rbits, _), got in zip(given.tolist(), out.tolist(), strict=True):
        high, low = rbits >> 16 & (1 << taken) - 1, rbits & (1 << taken) - 1
        wanted = [
            (bits >> 31 << 15 | top) if bits & 0x7FFFFFFF == 0x7F800000
            else carried(bits, random, kind)
            for bits, random in ((a, high), (b, low))
        ]  # fmt: skip
        assert [got >> 16, got & 0xFFFF] == wanted, (hex(a), hex(b), hex(rbits))


def test_9_7_9_21_not_a_number_is_not_rounded() -> None:
    given = words(32)
    given[:, 0] = 0x7FC00000
    body = "mov.b32 %f1, %r2; mov.b32 %f2, %r3; cvt.rs.satfinite.bf16x2.f32 %r6, %f1, %f2, %r4;"
    out = answer(f"{body} st.global.b32 [%rd2], %r6;", given)[:, 0]
    assert (out >> 16 == 0x7FFF).all()


SHORT = {"e4m3": (3, 7, 448), "e5m2": (2, 15, 57344), "e2m3": (3, 1, 7.5), "e3m2": (2, 3, 28),
         "e2m1": (1, 1, 6)}  # fmt: skip
"""Bits of the mantissa, bias, largest number."""
FOUR = "mov.b32 %f1, %r2; mov.b32 %f2, %r3; mov.b32 %f3, %r4; mov.b32 %f4, %r5; mov.u32 %r7, WORD;"


def by_random_bits(bits: int, random: int, kind: str) -> int:
    """The same of a short format: 16 random bits."""
    mantissa, bias, largest = SHORT[kind]
    size, exponent = abs(Fraction(float(np.uint32(bits).view(np.float32)))), 1 - bias
    while size >= Fraction(2) ** (exponent + 1):
        exponent += 1
    step = Fraction(2) ** (exponent - mantissa)
    kept = int(size / step)
    kept += (int((size / step - kept) * 2**16) + random) >> 16
    if size > largest or kept * step > Fraction(largest):
        exponent, step = 1 - bias, Fraction(0)
        while Fraction(2) ** (exponent + 1) <= Fraction(largest):
            exponent += 1
        kept = int(Fraction(largest) / Fraction(2) ** (exponent - mantissa))
    width = 4 if kind == "e2m1" else 6 if kind in ("e2m3", "e3m2") else 8
    return bits >> 31 << width - 1 | kept + ((exponent - 1 + bias) << mantissa)


@pytest.mark.parametrize("kind", SHORT)
def test_9_7_9_21_four_short_numbers_rounded_by_random_bits(kind: str) -> None:
    """a, b, e, f from the upper bits of d on; the lower half of `rbits` is for e and f, of e2m1
    the lower byte of either half.  The order of a's and e's bits is not the PTX ISA's."""
    for word in (0, 0xFFFFFFFF, 0x12345678, 0x8000, 0x00010000, 0x9ABC0001, 0x00FF0180):
        given = words(256)
        near = np.random.default_rng(word).integers(-20, 10, (256, 4))
        given = given & 0x807FFFFF | ((near + 127) << 23).astype(np.uint32)
        given[0], given[1] = 0, 0x80000000
        given[2], given[3] = 0x7F7FFFFF, 0xFF7FFFFF
        body = FOUR.replace("WORD", str(word))
        if kind == "e2m1":
            body += ".reg .b16 %h; cvt.rs.satfinite.e2m1x4.f32 %h, {%f1, %f2, %f3, %f4}, %r7;"
            body += "cvt.u32.u16 %r6, %h;"
            e = (word >> 16 & 0xFF) << 8 | word & 0xFF
            a = (word >> 24 & 0xFF) << 8 | word >> 8 & 0xFF
            width = 4
        else:
            body += f"cvt.rs.satfinite.{kind}x4.f32 %r6, {{%f1, %f2, %f3, %f4}}, %r7;"
            e, a, width = word & 0xFFFF, word >> 16, 8
        random = [int(f"{a:016b}"[::-1], 2), a, int(f"{e:016b}"[::-1], 2), e]
        out = answer(f"{body} st.global.b32 [%rd2], %r6;", given)[:, 0]
        for row, got in zip(given.tolist(), out.tolist(), strict=True):
            codes = [by_random_bits(x, r, kind) for x, r in zip(row, random, strict=True)]
            wanted = sum(c << width * (3 - i) for i, c in enumerate(codes))
            assert got == wanted, (hex(got), hex(wanted), [hex(x) for x in row], hex(word))


@pytest.mark.parametrize("cvt", ["cvt.rs.e4m3x4.f32 %r6, {%f1, %f2, %f3, %f4}, %r7",
                                 "cvt.rs.satfinite.e4m3x4.f32 %r6, {%f1, %f2}, %r7"])  # fmt: skip
def test_9_7_9_21_to_four_numbers_from_four(cvt: str) -> None:
    with pytest.raises(PtxError, match="four in braces"):
        answer(f"{FOUR.replace('WORD', '0')} {cvt};", words(32))


BULK = """
    .shared .align 16 .b8 tile[4096]; mov.u32 %r6, tile; shl.b32 %r7, %r1, 6; add.u32 %r6, %r6, %r7;
    st.shared.v4.b32 [%r6], {%r2, %r3, %r4, %r5}; st.shared.v4.b32 [%r6+16], {%r2, %r3, %r4, %r5};
    MIDDLE
    ld.shared.v2.b32 {%r2, %r3}, [%r6+8]; ld.shared.v2.b32 {%r4, %r5}, [%r6+16];
    st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};
"""
CLEARS = {
    "shared": "st.bulk.weak.shared::cta [%r6+16], 16, 0;",
    "a register": "mov.u64 %rd5, 16; st.bulk.weak.shared::cta [%r6+16], %rd5, 0;",
    "generic": "cvt.u64.u32 %rd5, %r6; cvta.shared.u64 %rd5, %rd5; st.bulk [%rd5+16], 16, 0;",
}


@pytest.mark.parametrize("how", CLEARS)
def test_9_7_9_14_a_stretch_of_shared_memory_becomes_zero(how: str) -> None:
    """`st.bulk [a], size, initval`: each thread clears bytes 16 to 31 of its own 64."""
    given = words(64)
    out = answer(BULK.replace("MIDDLE", CLEARS[how]), given)
    assert np.array_equal(out[:, :2], given[:, 2:]) and not out[:, 2:].any()


@pytest.mark.parametrize("bulk, why", [
    ("st.bulk.weak.shared::cta [%r6], 12, 0;", "multiples of 8"),
    ("st.bulk.weak.shared::cta [%r6+4], 8, 0;", "multiples of 8"),
    ("st.bulk [%rd1], 8, 0;", "none of shared memory"),
])  # fmt: skip
def test_9_7_9_14_where_it_cannot(bulk: str, why: str) -> None:
    with pytest.raises(Fault, match=why):
        answer(BULK.replace("MIDDLE", bulk), words(32))


@pytest.mark.parametrize("bulk", ["st.bulk.weak.shared::cta [%r6], 8, 1;",
                                  "st.bulk.weak.global [%rd1], 8, 0;"])  # fmt: skip
def test_9_7_9_14_it_writes_zeros_to_shared_memory(bulk: str) -> None:
    with pytest.raises(PtxError, match=r"number 0|shared memory of its own"):
        answer(BULK.replace("MIDDLE", bulk), words(32))


def test_9_7_9_14_it_takes_part_in_races() -> None:
    body = BULK.replace("MIDDLE", "setp.eq.u32 %p1, %r1, 0; @%p1 st.bulk.shared::cta [tile], 4096, "
                        "0; bar.warp.sync -1;")  # fmt: skip
    text = KERNEL.replace(".reg .b32", ".reg .pred %p<3>; .reg .b32").replace("BODY", body)
    out = np.zeros((64, 4), np.uint32)
    found = Module(text)["kernel"].launch(1, 64, [words(64), out]).findings
    assert found and {each.rule for each in found} == {"race"}
    alone = np.zeros((32, 4), np.uint32)
    found = Module(text.replace("bar.warp.sync -1;", "bar.sync 0;", 1).replace("st.bulk", "BULK")
                   .replace("@%p1 BULK", "bar.sync 0; @%p1 st.bulk"))["kernel"].launch(
                       1, 32, [words(32), alone]).findings  # fmt: skip
    assert not found and not alone.any()


ASSEMBLED = {
    **{f"bulk, {how}": ("sm_100a", BULK.replace("MIDDLE", text)) for how, text in CLEARS.items()},
    **{kind: ("sm_100a", FOUR.replace("WORD", "7") +
              f"cvt.rs.relu.satfinite.{kind}x4.f32 %r6, {{%f1, %f2, %f3, %f4}}, %r7;")
       for kind in SHORT if kind != "e2m1"},
    "e2m1": ("sm_100a", FOUR.replace("WORD", "7") + ".reg .b16 %h;"
             "cvt.rs.satfinite.e2m1x4.f32 %h, {%f1, %f2, %f3, %f4}, %r7;"),
    **{fence: ("sm_100a", f"fence.{fence}.cluster;") for fence in FENCES},
}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize("name", ASSEMBLED)
def test_ptxas_takes_it(name: str, tmp_path: Path) -> None:
    arch, body = ASSEMBLED[name]
    path = tmp_path / "kernel.ptx"
    path.write_text(KERNEL.replace("BODY", body))
    command = toolchain.nvcc_command("cubin", arch)
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr


@pytest.mark.parametrize("instruction, why", [
    ("multimem.ld_reduce.relaxed.sys.global.add.u32 %r6, [%rd1]", "cuMulticastCreate"),
    ("multimem.red.relaxed.sys.global.add.u32 [%rd1], %r2", "cuMulticastCreate"),
    ("cp.async.bulk.tensor.3d.shared::cluster.global.im2col::w.mbarrier::complete_tx::bytes "
     "[%r6], [%rd1, {%r2, %r3, %r4}], [%r7], {%r2, %r3}", "halo"),
])  # fmt: skip
def test_what_is_missing_is_refused_with_the_reason(instruction: str, why: str) -> None:
    with pytest.raises(PtxError, match=f"does not know.*{why}"):
        answer(f"{instruction};", words(32))
