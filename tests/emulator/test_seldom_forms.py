"""Forms of instructions that libraries have and few kernels: each by the PTX ISA's words."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from phasebit.emulator import PtxError
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
