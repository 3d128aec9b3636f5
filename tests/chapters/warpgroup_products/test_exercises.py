"""The checks of *Four warps multiply* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phasebit.chapters.warpgroup_products import exercises as check
from phasebit.edits import replace_each
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_warpgroup_products.ipynb"))
FUNCTIONS = ("descriptor", "along_m", "narrowest")


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")
    assert check.complex_product.verdict("// yours").endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.nvcc
def test_the_kernel_in_the_chapter_is_right() -> None:
    said = check.complex_product.verdict(solved(CHAPTER)["complex_product"])
    assert "complex_product: OK" in said


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, span: a >> 4 | 1 << 16 | span << 32 | 1 << 62,
        lambda a, span: a >> 4 | 1 << 16 | span >> 1 << 32 | 1 << 62,  # always 128B
        lambda a, span: a >> 4 | 1 << 16 | 64 << 32 | (128 // span) << 62,
        lambda a, span: a | 1 << 16 | span >> 1 << 32 | {128: 1, 64: 2, 32: 3}[span] << 62,
        lambda a, span: (
            a >> 4 | 1 << 16 | span >> 1 << 32 | {128: 2, 64: 4, 32: 6}[span] << 61 | 1 << 46
        ),
    ],
)
def test_descriptor_refuses(wrong: object) -> None:
    assert "not right yet" in check.descriptor.verdict(wrong)


MODE = {128: 1, 64: 2, 32: 3}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda a, s, k: (a >> 4) + 2 * k | 4 * s << 16 | s >> 1 << 32 | MODE[s] << 62,  # K-major
        lambda a, s, k: (a >> 4) + 128 * k | 4 * s << 16 | s >> 1 << 32 | MODE[s] << 62,
        lambda a, s, k: (a >> 4) + s * k | 1 << 16 | s >> 1 << 32 | MODE[s] << 62,
        lambda a, s, k: (a >> 4) + s * k | s >> 1 << 16 | 4 * s << 32 | MODE[s] << 62,
        lambda a, s, k: (a >> 4) + s * k | 4 * s << 16 | s >> 1 << 32 | 1 << 62,
    ],
)
def test_along_m_refuses(wrong: object) -> None:
    assert "not right yet" in check.along_m.verdict(wrong)


def at_full_rate(n: int, spare: int, registers: bool, cycles: float) -> bool:
    return 32 * n + (0 if registers else 2048) <= (128 - spare) * cycles


@pytest.mark.parametrize(
    "wrong",
    [
        lambda n, spare, r: at_full_rate(n, spare, False, n / 2) and n >= 26,  # wherever A is
        lambda n, spare, r: at_full_rate(n, 0, r, n / 2) and n >= 26,  # nobody else writes
        lambda n, spare, r: at_full_rate(n, spare, r, n / 2),  # as many a cycle as one likes
        lambda n, spare, r: at_full_rate(n, spare, r, n) and n >= 26,  # half of the rate
    ],
)
def test_narrowest_refuses(wrong: Callable[[int, int, bool], bool]) -> None:
    def answer(spare: int, registers: bool) -> int:
        return next((n for n in range(8, 257, 8) if wrong(n, spare, registers)), 0)

    assert "not right yet" in check.narrowest.verdict(answer)


def test_narrowest_is_0_where_no_width_will_do() -> None:
    def answer(spare: int, registers: bool) -> int:
        fits = (n for n in range(32, 257, 8) if at_full_rate(n, spare, registers, n / 2))
        return next(fits, 256)

    assert "not right yet" in check.narrowest.verdict(answer)


RE = "        ptx::wgmma(re, a + 2 * k, b + 2 * k, "
TAKEN = "ptx::wgmma<-1>(re, aa + 2 * k, bb + 2 * k, "
IM = "        ptx::wgmma(im, a"
WRONG = {
    "no proxy fence": (("    ptx::fence_proxy_async_shared();\n", ""),),
    "one thread fences": (("    ptx::fence_proxy", "    if (threadIdx.x == 0) ptx::fence_proxy"),),
    "no barrier": (("    __syncthreads();\n", ""),),
    "no wgmma.fence": (("    ptx::wgmma_fence();\n", ""),),
    "no commit": (("    ptx::wgmma_commit_group();\n", ""),),
    "no wait": (("    ptx::wgmma_wait_group<0>();\n", ""),),
    "one still under way": (("wait_group<0>", "wait_group<1>"),),
    "no sign": (("wgmma<-1>", "wgmma<1>"),),
    "the other sign": ((RE, RE.replace("wgmma", "wgmma<-1>")), (TAKEN, TAKEN.replace("<-1>", ""))),
    "conjugate": ((IM + "a +", IM.replace("wgmma", "wgmma<-1>") + "a +"),),
    "always added": ((RE + "k > 0", RE + "1"),),
    "never added": ((TAKEN + "1", TAKEN + "k > 0"),),
    "a step of 16 bytes": (("(im, aa + 2 * k, b + 2 * k", "(im, aa + k, b + k"),),
    "k in elements": (("(re, a + 2 * k, b + 2 * k", "(re, a + 16 * k, b + 16 * k"),),
    "major of B": ((IM + " +", IM.replace("wgmma", "wgmma<1, 0, 1>") + " +"),),
    "half of k": (("k < 4", "k < 2"),),
}


@pytest.mark.nvcc
@pytest.mark.parametrize("mistake", WRONG)
def test_complex_product_refuses(mistake: str) -> None:
    text = replace_each(solved(CHAPTER)["complex_product"], WRONG[mistake], "complex_product")
    assert "complex_product: not right yet" in check.complex_product.verdict(text)
