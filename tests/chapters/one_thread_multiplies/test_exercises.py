"""The checks of *One thread multiplies* accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest

from phasebit import files
from phasebit.chapters.one_thread_multiplies import described, ordering
from phasebit.chapters.one_thread_multiplies import exercises as check
from tests.book.notebooks import ROOT, solutions

CHAPTER = next(ROOT.glob("book/*/??_one_thread_multiplies.ipynb"))
FUNCTIONS = ("instruction", "descriptor", "waits")
MULTIPLY = next(text for text in solutions(CHAPTER) if "copy_b" in text).split('"""')[1]


def test_no_answer_yet() -> None:
    for name in FUNCTIONS:
        assert getattr(check, name).verdict(lambda *a: ...).endswith("not answered yet")


def test_the_solutions_in_the_chapter_are_right() -> None:
    names: dict[str, object] = {}
    for solution in solutions(CHAPTER):
        exec(solution, names)
    for name in FUNCTIONS:
        assert f"{name}: OK" in getattr(check, name).verdict(names[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda m, n: 1 << 4 | 1 << 7 | 1 << 10 | n // 16 << 17 | m // 16 << 24,
        lambda m, n: 1 << 4 | 1 << 7 | 1 << 10 | m // 8 << 17 | n // 16 << 24,
        lambda m, n: 1 << 7 | 1 << 10 | n // 8 << 17 | m // 16 << 24,
        lambda m, n: 0x08200490,  # one shape
    ],
)
def test_instruction_refuses(wrong: object) -> None:
    assert "not right yet" in check.instruction.verdict(wrong)


def touching(first: Any, then: Any) -> bool:
    (_, reads, writes), (_, its_reads, its_writes) = first, then
    return bool(writes & (its_reads | its_writes) or reads & its_writes)


def ordered(first: Any, then: Any, listed: Any) -> bool:
    """The rule of the page."""
    pair = first[0], then[0]
    return not touching(first, then) or (
        pair in listed and (pair != ("mma", "mma") or first[2] == then[2])
    )


def walked(rule: Callable[..., bool] = ordered, forget: bool = True, near: int = 99) -> Any:
    """Waits as late as may be, by some rule for two operations."""

    def answer(queue: list[Any], listed: Any) -> list[int]:
        found, since = [], 0
        for n, then in enumerate(queue):
            if not all(rule(queue[m], then, listed) for m in range(max(since, n - near), n)):
                found.append(n)
                since = n if forget else 0
        return found

    return answer


def by_pairs(queue: list[Any], listed: Any) -> list[int]:
    """As if two listed pairs made a third."""
    n = len(queue)
    comes = [[ordered(a, b, listed) and touching(a, b) for b in queue] for a in queue]
    for k in range(n):
        for i in range(n):
            for j in range(n):
                comes[i][j] = comes[i][j] or (i < k < j and comes[i][k] and comes[k][j])
    found, since = [], 0
    for j in range(n):
        if any(touching(queue[i], queue[j]) and not comes[i][j] for i in range(since, j)):
            found.append(j)
            since = j
    return found


def at_once(queue: list[Any], listed: Any) -> list[int]:
    """Behind each operation with which a later one is in no order."""
    return [n + 1 for n, first in enumerate(queue)
            if not all(ordered(first, then, listed) for then in queue[n + 1 :])]  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        lambda queue, listed: [],
        lambda queue, listed: [*range(1, len(queue))],
        at_once,
        by_pairs,
        walked(near=1),  # the last operation alone
        walked(near=2),
        walked(forget=False),  # a wait covers all that came before
        walked(lambda a, b, listed: (a[0], b[0]) in listed),  # whatever they touch
        walked(lambda a, b, listed: not touching(a, b)),  # whatever is listed
        walked(lambda a, b, listed: not touching(a, b) or (a[0], b[0]) in listed),  # other sums
        walked(lambda a, b, listed: ordered(a, b, {*listed, *((y, x) for x, y in listed)})),
        walked(lambda a, b, listed: ordered(a, b, {(y, x) for x, y in listed})),
        walked(lambda a, b, listed: not a[2] & b[2] or ordered(a, b, listed)),  # no reads
        walked(lambda a, b, listed: not a[2] & (b[1] | b[2]) or ordered(a, b, listed)),
        walked(lambda a, b, listed: not (a[1] & b[1]) and ordered(a, b, listed)),  # two that read
        walked(lambda a, b, listed: ordered(a, b, ordering.LISTED)),  # the chapter's list alone
        lambda queue, listed: len(walked()(queue, listed)),
        lambda queue, listed: [n + 1 for n in walked()(queue, listed)],
        lambda queue, listed: [n - 1 for n in walked()(queue, listed)],
        lambda queue, listed: [n in walked()(queue, listed) for n in range(len(queue))],
    ],
)
def test_waits_refuses(wrong: Callable[..., Any]) -> None:
    said = check.waits.verdict(wrong)
    assert "not right yet" in said and "raises" not in said, said


def test_waits_takes_any_least_number_of_waits() -> None:
    """Earlier than they must be, where none more is needed."""

    def early(queue: list[Any], listed: Any) -> list[int]:
        found: list[int] = []
        end = len(queue)
        while end:  # from behind: the first operation from which on none is in no order
            begin = end - 1
            while begin and all(ordered(queue[begin - 1], then, listed)
                                for then in queue[begin:end]):  # fmt: skip
                begin -= 1
            found = [begin, *found] if begin else found
            end = begin
        return found

    assert "waits: OK" in check.waits.verdict(early)


@pytest.mark.nvcc
def test_the_rule_of_waits_is_the_emulators_in_the_chapters_queue() -> None:
    """Without its wait one is needed, where the kernel has it; there the emulator finds four."""
    text = files.kernel("one_thread_multiplies/queue")
    begin = text.index("        ptx::tcgen05_commit(&first);")
    end = text.index("        for (int quarter")
    for source, needed in (text[:begin] + text[end:], [2]), (text, [2]):
        with ordering.watching() as log:
            run, _ = described.queued(source, schedule="eager")
        queue = [(each.kind, each.reads, each.writes) for each in log
                 if each.kind in ordering.CORE]  # fmt: skip
        assert check.least_waits(queue, ordering.LISTED) == needed
        assert len(run.findings) == (4 if source != text else 0)


def descriptor(**changed: object) -> object:
    """The right answer with some of its fields in another way."""

    def answer(address: int, rows: int, depth: int, major: str, span: int) -> int:
        names = {"address": address, "rows": rows, "depth": depth, "major": major, "span": span}
        fields = {
            "start": address >> 4,
            "leading": depth * span >> 4 if major == "MN" else 1,
            "stride": 8 * span >> 4,
            "version": 1,
            "base": 0,
            "code": {128: 2, 64: 4, 32: 6}[span],
        }
        for name, value in changed.items():
            fields[name] = eval(value, names) if isinstance(value, str) else value  # type: ignore
        shifts = {"start": 0, "leading": 16, "stride": 32, "version": 46, "base": 49, "code": 61}
        return sum(fields[name] << shift for name, shift in shifts.items())

    return answer


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"start": "address"}, "divided by 16"),
        ({"start": 0}, "it begins at 0x0"),
        ({"version": 0}, "this is a Hopper descriptor"),
        ({"version": 2}, "must be 001"),
        ({"code": 2}, "its swizzle is 128B"),
        ({"code": "{128: 1, 64: 2, 32: 3}[span]"}, "its swizzle is 128B, atoms of 32B"),
        ({"code": 0}, "its swizzle is none"),
        ({"base": 1}, "its base offset is 1"),
        ({"leading": 1}, "the leading offset is 16 bytes, and a box has 8192"),
        ({"leading": "8 * span >> 4"}, "the leading offset is 1024 bytes, and a box has 8192"),
        ({"leading": "rows * span >> 4"}, "the leading offset is 16384 bytes, and a box has 8192"),
        ({"leading": 0}, "the leading offset is 0 bytes"),
        ({"stride": 64}, "the stride offset is 1024 bytes, and eight lines have"),  # of 128B alone
        ({"stride": "span >> 4"}, "the stride offset is 128 bytes, and eight lines have 1024"),
        ({"stride": "depth * span >> 4"}, "and eight lines have 1024"),
        ({"stride": 0}, "the stride offset is 0 bytes"),
        ({"stride": 1, "leading": 64}, "the stride offset is 16 bytes"),  # exchanged
        ({"code": 2, "version": 257}, "bits 53-60 must be 0"),
        ({"code": 8}, "more than 64 bits"),
        ({"code": -4}, "is negative"),
    ],
)
def test_descriptor_refuses(wrong: dict[str, object], says: str) -> None:
    said = check.descriptor.verdict(descriptor(**wrong))
    assert said.startswith("descriptor: not right yet: ") and says in said, said


@pytest.mark.parametrize("wrong", [True, 1.0, "0x4000404000010840", [1]])
def test_descriptor_wants_a_number(wrong: object) -> None:
    assert "give a whole number" in check.descriptor.verdict(lambda *a: wrong)


def test_descriptor_takes_any_leading_offset_of_a_single_box() -> None:
    free = descriptor(leading="depth * span >> 4 if major == 'MN' else 7")
    assert "descriptor: OK" in check.descriptor.verdict(free)


WRONGS = {
    "B is called K-major": (" | 1 << 16;", ";", "reads B up to"),
    "A is called M-major too": (" | 1 << 16;", " | 3 << 15;", "C is wrong|finds"),
    "the wrong bit": (" | 1 << 16;", " | 1 << 14;", "reads B up to"),
    "B's step of a K-major tile": ("right + 128 * step", "right + 2 * step", "C is wrong|finds"),
    "B's step in bytes": ("right + 128 * step", "right + 2048 * step", "C is wrong|finds|reads B"),
    "A's step of 16 numbers": (
        "tcgen05_descriptor_128B(a) + 2 * step", "tcgen05_descriptor_128B(a) + 16 * step",
        "C is wrong|finds"),
    "A does not step": (
        "tcgen05_descriptor_128B(a) + 2 * step", "tcgen05_descriptor_128B(a)", "C is wrong"),
    "leading and stride change places": (
        "8192ull >> 4 << 16 | 1024ull >> 4 << 32", "1024ull >> 4 << 16 | 8192ull >> 4 << 32",
        "C is wrong|finds|reads B"),
    "the leading offset of a K-major tile": (
        "8192ull >> 4 << 16", "16ull >> 4 << 16", "C is wrong|finds"),
    "no version": (" | 1ull << 46 | 2ull", " | 2ull", "invalid|Hopper|version"),
    "the swizzle of 64 bytes": ("2ull << 61", "4ull << 61", "C is wrong|finds|reads B"),
    "no swizzle": (" | 2ull << 61", "", "C is wrong|finds|reads B"),
    "N in sixteenths": (
        "ptx::tcgen05_bf16_f32(M, N) |", "ptx::tcgen05_bf16_f32(M, N / 2) |", "finds|C is wrong"),
    "every step begins with zero": ("step > 0", "false", "C is wrong"),
    "the first step adds to what was there": ("step > 0", "true", "finds"),
    "nobody commits": ("        ptx::tcgen05_commit(&done);\n", "", "deadlock"),
    "nobody waits": ("    ptx::mbarrier_wait(&done, 0);\n", "", "finds async"),
    "the commit comes first": (
        "        for (int step = 0;",
        "        ptx::tcgen05_commit(&done);\n        for (int step = 0;",
        "finds|barrier"),
    "all threads issue": ("    if (t == 0) {\n        const", "    {\n        const", "finds|barr"),
    "no proxy fence": ("    ptx::fence_proxy_async_shared();\n", "", "finds proxy"),
    "no fence before": (
        "    ptx::tcgen05_fence_before_thread_sync();\n", "", "no tcgen05.fence::before"),
    "no fence behind": (
        "    ptx::tcgen05_fence_after_thread_sync();\n", "", "no tcgen05.fence::after"),
    "two steps of four": ("step < K / 16", "step < K / 32", "C is wrong"),
    "every warp fetches the first quarter": ("(warp * 32 << 16)", "0", "finds tensor"),
}  # fmt: skip
"""What is replaced by what in the solution, everywhere, and what must be said."""


@pytest.mark.nvcc
def test_the_kernel_in_the_chapter_is_right() -> None:
    assert "multiply: OK" in check.multiply.verdict(MULTIPLY)


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONGS)
def test_multiply_refuses(name: str) -> None:
    old, new, says = WRONGS[name]
    assert old in MULTIPLY
    said = check.multiply.verdict(MULTIPLY.replace(old, new))
    assert said.startswith("multiply: not right yet") and re.search(says, said), said


@pytest.mark.parametrize(("wrong", "says"), [(1, "as a string"), ("__global__", "keep the line")])
def test_multiply_wants_a_kernel(wrong: object, says: str) -> None:
    assert says in check.multiply.verdict(wrong)


def test_a_blank_kernel_is_not_answered_yet() -> None:
    assert check.multiply.verdict("// yours").endswith("not answered yet")
