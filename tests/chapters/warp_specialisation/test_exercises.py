"""The checks of warp specialisation accept what is right and refuse planted wrong answers."""

from __future__ import annotations

import pytest

from phasebit.chapters.warp_specialisation import clinic
from phasebit.chapters.warp_specialisation import exercises as check
from tests.book.notebooks import ROOT, code, solutions, source

CHAPTER = next(ROOT.glob("book/*/??_warp_specialisation.ipynb"))


def test_no_answer_yet() -> None:
    assert check.budget.verdict(lambda *a: ...).endswith("not answered yet")
    for each in (check.diagnosis, check.ward, check.one_arrival, check.two_groups, check.ring):
        assert each.verdict(...).endswith("not answered yet")


@pytest.mark.parametrize(
    "wrong",
    [
        lambda r, p, c, kept: 240,  # only this kernel
        lambda r, p, c, kept: (r * (p + c) - kept * p) // c,  # no multiple of 8
        lambda r, p, c, kept: (r * (p + c) - kept * p) // c // 8 * 8,  # more than there may be
        lambda r, p, c, kept: min(256, (65536 // 128 - kept * p) // c // 8 * 8),  # not launched
        lambda r, p, c, kept: min(256, (r - kept) // c // 8 * 8),
        lambda r, p, c, kept: "240",
    ],
)
def test_budget_refuses(wrong: object) -> None:
    assert "not right yet" in check.budget.verdict(wrong)


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong", [("race", 20), ("async", 1), ("async", "20"), ("finding", 20), "async", ("async",), 20]
)
def test_diagnosis_refuses(wrong: object) -> None:
    assert "not right yet" in check.diagnosis.verdict(wrong)


@pytest.mark.nvcc
def test_diagnosis_takes_either_end() -> None:
    for line, kinds in clinic.marks(check.DIAGNOSE).items():
        assert "OK" in check.diagnosis.verdict(("async", line)), kinds


SIX = {2: ("fault", 18), 3: ("race", 32), 4: ("fault", 32), 5: ("fault", 30),
       6: ("compile", 13), 7: ("race", 21)}  # fmt: skip


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {2: ("fault", 18)},  # one is not enough
        {**SIX, 8: ("deadlock", 20)},
        {**SIX, 9: ("fault", 1)},
        {**SIX, 12: ("deadlock", 18)},  # the chapter has done that one
        {**SIX, 1: ("race", 40)},
        {**SIX, 17: ("async", 36)},  # no patient of the ward
        {**SIX, True: ("fault", 18)},
        {**SIX, 10: "async"},
        list(SIX.values()),
    ],
)
def test_ward_refuses(wrong: object) -> None:
    assert "not right yet" in check.ward.verdict(wrong)


EMPTY, FULL = "wait(empty[at.slot], at.phase ^ 1);", "wait(full[at.slot], at.phase);"

RINGS = {
    "nobody waits for an empty slot": (EMPTY, "", "barrier:"),
    "empty is waited for as full is": ("at.phase ^ 1", "at.phase", "phase 0 of empty[0]"),
    "nobody gives a slot back": ("arrive(empty[at.slot]);", "", "phase 0 of empty[0]"),
    "nobody says that a slot is full": ("arrive(full[at.slot]);", "", "phase 0 of full[0]"),
    "nobody waits for a full slot": (FULL, "", "race:"),
    "said to be full before it is": (
        f"{EMPTY}\n", f"{EMPTY} arrive(full[at.slot]);\n", "barrier:"),
    "given back before it is read": (FULL, f"{FULL} arrive(empty[at.slot]);", "barrier:"),
    "all threads are counted": (
        "init(full[threadIdx.x], PRODUCERS)", "init(full[threadIdx.x], THREADS)",
        "128 of 256 arrivals pending"),
    "one thread is counted": (
        "init(empty[threadIdx.x], CONSUMERS)", "init(empty[threadIdx.x], 1)", "barrier:"),
    "nobody waits for the barriers to exist": ("__syncthreads();", "", "race:"),
    "the parity never flips": (
        "++tile, at = advance(at, SLOTS)) {\n        wait(full",
        "++tile, at.slot = advance(at, SLOTS).slot) {\n        wait(full", "phase 1 of empty[0]"),
    "the block meets in each round": (
        "arrive(full[at.slot]);", "arrive(full[at.slot]); __syncthreads();", "may meet once"),
    "always eight tiles": ("TILES = K / BK", "TILES = 8", "fault:"),
    "tiles of A go to one slot": ("a[at.slot][row][x] =", "a[0][row][x] =", "race:"),
    "always two slots": ("SLOTS = 2;", "RING = 2, SLOTS = RING;", "constant SLOTS"),
    "room for three slots": ("[SLOTS][M][BK]", "[3][M][BK]", "does not bring room"),
}  # fmt: skip
"""What people get wrong -> words of the healthy kernel, others, and words of the refusal."""


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", RINGS)
def test_ring_refuses(wrong: str) -> None:
    old, new, why = RINGS[wrong]
    text = clinic.source("00_healthy")
    assert old in text
    said = check.ring.verdict(text.replace(old, new))
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_ring_refuses_what_is_no_ring() -> None:
    assert "still empty" in check.ring.verdict(check.RING)
    assert "as a string" in check.ring.verdict(3)
    assert "keep the line with the constant M" in check.ring.verdict("int x;")
    everybody = clinic.source("10_no_drain", repaired=True)  # all threads copy and multiply
    assert "may meet once" in check.ring.verdict(everybody)


@pytest.mark.nvcc
def test_ring_refuses_warps_with_two_roles() -> None:
    """Right, without findings, and no warp has one role: each loads and multiplies."""
    text = clinic.source("00_healthy")
    both = (
        text.replace(
            "    for (int i = 0; i < 8; ++i) C[(y + 4 * i) * N + x] = c[i];",
            "    for (int i = 0; i < 8; ++i) C[(y + 4 * i) * N + x] = c[i] + 0 * D[y];",
        )
        .replace("consume(float* C)", "consume(float* C, const float* D)")
        .replace("consume(C)", "consume(C, A)")
    )
    assert "two roles" in check.ring.verdict(both)


ARRIVE = "if (x == 0) arrive(empty[at.slot]);  // once for the warp"


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (ARRIVE, ARRIVE, "race:"),  # nothing is changed
        (ARRIVE, f"{ARRIVE} __syncwarp();", "race:"),  # too late
        (ARRIVE, "arrive(empty[at.slot]);", "barrier:"),  # 32 times as many as expected
        (ARRIVE, f"__syncthreads(); {ARRIVE}", "deadlock:"),
        (ARRIVE, "", "phase 0 of empty[0]"),
        ("K = 256;", "K = 32;", "keep the line with the constant K"),
        ("wait(full[at.slot], at.phase);", "", "race:"),
        ("arrive(full[at.slot]);", "nonsense", "not compiled"),
    ],
)
def test_one_arrival_refuses(old: str, new: str, why: str) -> None:
    text = clinic.source(check.ONE_ARRIVAL)
    assert old in text
    said = check.one_arrival.verdict(text.replace(old, new))
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_one_arrival_takes_both_repairs() -> None:
    assert "OK" in check.one_arrival.verdict(clinic.source(check.ONE_ARRIVAL, repaired=True))
    assert "OK" in check.one_arrival.verdict(clinic.variant(check.ONE_ARRIVAL, "syncwarp"))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("    sync(1, 2 * GROUP);", "    sync(1, 2 * GROUP);\n    sync(2, 2 * GROUP);", "race:"),
        ("    if (group == 1)", "    sync(2, GROUP);\n    if (group == 1)", "barrier:"),
        ("    if (group == 1)", "    __syncwarp();\n    if (group == 1)", "race:"),
        ("= a[0];", "= a[1];", "with K = 96"),  # the other slot: one tile does not show it
        ("    sync(1, 2 * GROUP);", "", "race:"),
        ("    float (&part)[M][N] = a[0];", "    __shared__ float part[M][N];",
         "20,512 bytes of shared memory"),
    ],
)  # fmt: skip
def test_two_groups_refuses(old: str, new: str, why: str) -> None:
    text = clinic.source(check.TWO_GROUPS)
    assert old in text
    said = check.two_groups.verdict(text.replace(old, new))
    assert "not right yet" in said and why in said, said


@pytest.mark.nvcc
def test_two_groups_refuses_half_of_the_sum() -> None:
    text = clinic.source(check.TWO_GROUPS, repaired=True)
    half = text.replace("= c[i] + part", "= part")
    said = check.two_groups.verdict(half)
    assert half != text and "result: wrong" in said and "race" not in said, said


@pytest.mark.nvcc
@pytest.mark.parametrize(("exercise", "answer"), [
    ("budget", "budget"), ("diagnosis", "answer_1"), ("one_arrival", "answer_2"),
    ("two_groups", "answer_3"), ("ward", "diagnoses"), ("ring", "answer_4"),
])  # fmt: skip
def test_the_solutions_of_the_chapter(exercise: str, answer: str) -> None:
    names: dict[str, object] = {"clinic": clinic, "check": check}
    for text in solutions(CHAPTER):
        exec(text, names)
    said = getattr(check, exercise).verdict(names[answer])
    assert "OK" in said, said


def test_the_healthy_kernel_is_its_file() -> None:
    cells = [source(cell) for cell in code(CHAPTER)]
    assert "%%cuda\n" + clinic.source("00_healthy").rstrip("\n") in cells
