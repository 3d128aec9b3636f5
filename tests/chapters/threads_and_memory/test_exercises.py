"""The checks of threads and memory accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit import files, occupancy
from phasebit.chapters.threads_and_memory import exercises as check
from tests.book.notebooks import ROOT, code, solutions, source
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_threads_and_memory.ipynb"))
REFUSED = "not right yet"


def test_no_answer_yet() -> None:
    for each in (check.structures, check.most_shared, check.swizzle):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.planes.verdict(...).endswith("not answered yet")


@pytest.mark.nvcc
def test_a_skeleton_is_no_answer() -> None:
    assert check.reverse.verdict(check.REVERSE).endswith("not answered yet")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda f, w: (w * min(32, 4 * f), 4),  # one load in all
        lambda f, w: (4 * f, 4 * w),  # sectors fetched, each once
        lambda f, w: (w * 4 * f, 4 * w),  # more than 32 sectors
        lambda f, w: (w * min(32, 4 * f), 4 * f),
        lambda f, w: (12, 12),
    ],
)
def test_structures_refuses(wrong: object) -> None:
    assert REFUSED in check.structures.verdict(wrong)


def share(c: int, b: int, t: int, r: int, *, reserved: bool = True, unit: bool = True) -> int:
    own = occupancy.limits(c)
    if occupancy.occupancy(own, r, 0, t).blocks < b:
        return -1
    each = own.shared // b
    each = each // own.shared_unit * own.shared_unit if unit else each
    return min(each - own.reserved_shared * reserved, own.block_shared)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda *a: share(*a, reserved=False),
        lambda *a: share(*a, unit=False),
        lambda *a: max(0, share(*a)),  # never says that they do not fit
        lambda *a: 0,
        lambda *a: -1,
        lambda *a: share(90, *a[1:]),  # one machine for all
        lambda *a: float(share(*a)),
    ],
)
def test_most_shared_refuses(wrong: object) -> None:
    assert REFUSED in check.most_shared.verdict(wrong)


def test_most_shared_accepts() -> None:
    assert "OK" in check.most_shared.verdict(share)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, c: 32 * r + c,  # columns conflict
        lambda r, c: 33 * r + c,  # too large
        lambda r, c: 32 * c + r,
        lambda r, c: (33 * r + c) % 1024,  # two to one word
        lambda r, c: 32 * r + (c ^ (r & 15)),  # two by two
        lambda r, c: 0,
        lambda r, c: True,
    ],
)
def test_swizzle_refuses(wrong: object) -> None:
    assert REFUSED in check.swizzle.verdict(wrong)


@pytest.mark.parametrize(
    "right", [lambda r, c: 32 * r + (c ^ r), lambda r, c: 32 * r + (c + r) % 32]
)
def test_swizzle_accepts(right: object) -> None:
    assert "OK" in check.swizzle.verdict(right)


IN_REVERSE = """
extern "C" __global__ void reverse(const float* x, float* y, int n) {
    const int t = threadIdx.x + blockDim.x * threadIdx.y;
    const int i = blockIdx.x * 192 + t;
    if (i < n) y[i] = x[n - 1 - i];
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("", "", ""),
        ("= threadIdx.x + blockDim.x * threadIdx.y", "= threadIdx.y + 12 * threadIdx.x", "sectors"),
        (" + blockDim.x * threadIdx.y", "", "y[16] is not x[175]"),  # x alone
        ("192", "blockDim.x", "is not"),
        ("192 + t", "0 + t", "is not"),
        ("n - 1 - i", "n - i", "invalid"),
        ("if (i < n) ", "", "invalid"),
        ("i < n", "i < n - 1", "is not"),
        ("i < n", "i == 0) for (int i = 0; i < n; ++i", "sectors"),  # one thread does it all
        ("void reverse", "void backwards", "reverse"),
    ],
)
def test_reverse(old: str, new: str, why: str) -> None:
    said = check.reverse.verdict(IN_REVERSE.replace(old, new))
    assert (REFUSED in said and why in said) if why else "OK" in said, said


THROUGH_SHARED = """
extern "C" __global__ void planes(const float* x, float* y, int n) {
    __shared__ float s[384];
    const int t = threadIdx.x, first = blockIdx.x * 128;
    for (int k = t; k < 384; k += 128)
        if (3 * first + k < 3 * n) s[k] = x[3 * first + k];
    __syncthreads();
    if (first + t < n)
        for (int c = 0; c < 3; ++c) y[c * n + first + t] = s[3 * t + c];
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (check.PLANES, "sectors"),
        (check.PLANES.replace("i >= n", "i > n"), "for 1 pixels|sectors"),
        (check.PLANES.replace("3 * i + c]", "3 * i]"), "planes are wrong"),
        (THROUGH_SHARED.replace("    __syncthreads();\n", ""), "race|uninit|wrong"),
        (THROUGH_SHARED.replace("if (3 * first + k < 3 * n) ", ""), "for 300 pixels"),
        (THROUGH_SHARED.replace("x[3", "y[3"), "wrong|nan|uninit|sectors"),
        (THROUGH_SHARED.replace("float s[384]", "float s[256]"), "shared|outside|bounds"),
        (THROUGH_SHARED.replace("s[3 * t + c]", "s[128 * c + t]"), "planes are wrong"),
        (THROUGH_SHARED.replace("y[c * n +", "y[c * (n + 1) +"), "planes are wrong|behind|outside"),
        (THROUGH_SHARED.replace("c < 3", "c < 4"), "behind|wrong|outside|uninit"),
        (THROUGH_SHARED.replace("k < 384; k += 128", "k < 256; k += 128"), "wrong|uninit"),
        ("int planes;", "planes"),
        ("nonsense", "line 1"),
    ],
)
def test_planes_refuses(text: str, why: str) -> None:
    said = check.planes.verdict(text)
    assert REFUSED in said and any(word in said for word in why.split("|")), said


@pytest.mark.nvcc
def test_planes_refuses_conflicts() -> None:
    columns = THROUGH_SHARED.replace("float s[384]", "float s[32 * 384]")
    columns = columns.replace("s[384]", "s[12288]").replace("s[k]", "s[k % 32 * 384 + k / 32]")
    columns = columns.replace("s[3 * t + c]", "s[(3 * t + c) % 32 * 384 + (3 * t + c) / 32]")
    assert "bank conflicts" in check.planes.verdict(columns)


@pytest.mark.nvcc
def test_planes_accepts() -> None:
    assert "OK" in check.planes.verdict(THROUGH_SHARED)


# The chapter and the files it shows


@pytest.mark.nvcc
def test_the_solutions_of_the_chapter() -> None:
    names = solved(CHAPTER)
    first: dict[str, str] = {}
    exec(next(iter(solutions(CHAPTER))), first)
    assert "OK" in check.reverse.verdict(first["answer"])
    for name in ("structures", "most_shared", "swizzle"):
        assert "OK" in getattr(check, name).verdict(names[name])
    assert "OK" in check.planes.verdict(names["answer"])


def test_a_cell_is_its_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + files.kernel("threads_and_memory/transpose").rstrip("\n") in cells
    for name in ("sectors", "banks", "divergence"):
        text = files.kernel(f"threads_and_memory/{name}")
        assert any(f'r"""\n{text}"""' in cell for cell in cells)
