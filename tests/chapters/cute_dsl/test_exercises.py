"""The checks of *The same in CuTe DSL* accept what is right and refuse what people write."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from phasebit.chapters.cute_dsl import cute_ptx, written_ring
from phasebit.chapters.cute_dsl import exercises as check
from phasebit.edits import replace_once
from tests.book.notebooks import ROOT
from tests.chapters.answers import solved

CHAPTER = next(ROOT.glob("book/*/??_cute_dsl.ipynb"))


def test_no_answer_yet() -> None:
    for each in (check.slots, check.calls, check.choose):
        assert each.verdict(lambda *a: ...).endswith("not answered yet")
    assert check.pipeline.verdict("// yours").endswith("not answered yet")


def test_the_solutions_of_arithmetic_are_right() -> None:
    for name in ("slots", "calls", "choose"):
        assert f"{name}: OK" in getattr(check, name).verdict(solved(CHAPTER)[name])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda rows, columns, depth, pieces: 4,
        lambda rows, columns, depth, pieces: 232_448 // ((rows + columns) * depth * 2),
        lambda rows, columns, depth, pieces: (231_424 - pieces * rows * 128) // (rows * depth * 2),
        lambda rows, columns, depth, pieces: (
            (231_424 - pieces * rows * 128) // ((rows + columns) * depth)
        ),
        lambda rows, columns, depth, pieces: (
            -(-(231_424 - pieces * rows * 128) // ((rows + columns) * depth * 2))
        ),
        lambda rows, columns, depth, pieces: (
            (231_424 - rows * columns * 4) // ((rows + columns) * depth * 2)
        ),
    ],
)
def test_slots_refuses(wrong: Callable[..., int]) -> None:
    assert "not right yet" in check.slots.verdict(wrong)


TELLS = {"threads": "arrive", "tensor core": "tcgen05.commit", "copy engine": "nothing"}


@pytest.mark.parametrize(
    "wrong",
    [
        lambda producer, consumer: ("wait", "arrive", "wait", "arrive"),
        lambda producer, consumer: ("wait", TELLS[producer], "wait", TELLS[consumer]),
        lambda producer, consumer: ("wait, announce", TELLS[producer], "wait", TELLS[consumer]),
        lambda producer, consumer: (
            "wait, announce" if producer == "copy engine" else "wait",
            TELLS[consumer], "wait", TELLS[producer],
        ),
        lambda producer, consumer: (
            "wait, announce" if producer == "copy engine" else "wait",
            TELLS[producer].replace("nothing", "arrive"), "wait", TELLS[consumer],
        ),
    ],
)  # fmt: skip
def test_calls_refuses(wrong: Callable[..., tuple[str, str, str, str]]) -> None:
    assert "not right yet" in check.calls.verdict(wrong)


ACQUIRE = "ptx::mbarrier_wait(&empty[at.index], at.phase); }"
WAIT = "ptx::mbarrier_wait(&full[at.index], at.phase); }"
COMMIT, RELEASE = (
    "ptx::mbarrier_arrive(&full[at.index]);",
    "ptx::mbarrier_arrive(&empty[at.index]);",
)
TAIL = "for (int i = 0; i < slots; ++i, at.advance(slots)) acquire(at);"
WRONG = {
    "no acquire": (ACQUIRE, "}"),
    "acquire flips the phase, which is a producer's already": (
        ACQUIRE, ACQUIRE.replace("at.phase", "at.phase ^ 1")),
    "acquire asks full": (ACQUIRE, ACQUIRE.replace("empty", "full")),
    "no wait": (WAIT, "}"),
    "wait flips the phase": (WAIT, WAIT.replace("at.phase", "at.phase ^ 1")),
    "no commit": (COMMIT, ""),
    "lane 0 commits for all 32": (COMMIT, f"if (threadIdx.x % 32 == 0) {COMMIT}"),
    "commit at empty": (COMMIT, RELEASE.replace("release", "")),
    "no release": (RELEASE, ""),
    "one warp releases": (RELEASE, f"if (threadIdx.x / 32 == 1) {RELEASE}"),
    "no tail": (TAIL, ""),
    "a tail of one slot, the next": (TAIL, "acquire(at);"),
    "a tail that does not advance": (TAIL, TAIL.replace(", at.advance(slots)", "")),
    "the counts are exchanged": ("init(&full[slot], producers)", "init(&full[slot], consumers)"),
    "one consumer": ("init(&empty[slot], consumers)", "init(&empty[slot], 1)"),
    "the phase never turns": (" index = 0, phase ^= 1;", " index = 0;"),
    "the phase turns each time": ("if (++index == slots) index = 0, phase ^= 1;",
                                  "index = (index + 1) % slots, phase ^= 1;"),
    "one slot of barriers": ("empty(barriers + slots)", "empty(barriers + 1)"),
    "every thread initialises": ("if (threadIdx.x == 0)\n", "\n"),
}  # fmt: skip
"""What people write -> what they change in the solution."""


@pytest.mark.nvcc
def test_the_solution_runs() -> None:
    assert check.pipeline.verdict(solved(CHAPTER)["ring"]) == "pipeline: OK (18 runs, no finding)"


@pytest.mark.nvcc
@pytest.mark.parametrize("name", WRONG)
def test_pipeline_refuses(name: str) -> None:
    old, new = WRONG[name]
    text = replace_once(solved(CHAPTER)["ring"], old, new)
    assert check.pipeline.verdict(text).startswith("pipeline: not right yet: ")


@pytest.mark.parametrize("wrong", [1, lambda: None, ["ring"]])
def test_pipeline_wants_text(wrong: object) -> None:
    assert "give the text of the pipeline" in check.pipeline.verdict(wrong)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda producer, consumer, warps: ("PipelineAsync", 32 * warps, 32 * warps),
        lambda producer, consumer, warps: (
            check.CLASSES[producer, consumer],
            32 * warps if producer == "threads" else 1, 32 * warps if consumer == "threads" else 1,
        ),
        lambda producer, consumer, warps: (
            check.CLASSES[producer, consumer],
            warps if producer == "threads" else 1, warps if consumer == "threads" else 1,
        ),
        lambda producer, consumer, warps: (check.CLASSES[producer, consumer], 1, 1),
    ],
)  # fmt: skip
def test_choose_refuses(wrong: Callable[..., tuple[str, int, int]]) -> None:
    """Threads that consume what the copy engine brings release once a warp, all others each."""
    assert "not right yet" in check.choose.verdict(wrong)


RIGHT = "", "the factor behind", "no tail"


@pytest.fixture
def without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cute_ptx, "installed", lambda: False)


@pytest.mark.usefixtures("without_the_package")
@pytest.mark.parametrize("name", written_ring.CHANGES)
def test_a_ring_of_cute_dsl_is_judged_by_kept_ptx(name: str) -> None:
    said = check.doubled.verdict(written_ring.changed(name))
    assert ("doubled: OK" in said) == (name in RIGHT), said


@pytest.mark.usefixtures("without_the_package")
def test_names_and_comments_of_a_ring_do_not_matter_another_text_does() -> None:
    text = written_ring.solution().replace("slot =", "place =").replace("slot.", "place.")
    text = text.replace("job", "row").replace("    writer.tail()", "    # wait\n    writer.tail()")
    assert "doubled: OK" in check.doubled.verdict(text)
    other = replace_once(written_ring.solution(), "2 * slots", "1 * slots")
    assert "was not compiled beforehand" in check.doubled.verdict(other)
    assert "this is no Python" in check.doubled.verdict(text + "\n(")
    assert check.doubled.verdict("def produce(x):\n    ...\ndef consume(y):\n    ...").endswith(
        "not answered yet"
    )


@pytest.mark.usefixtures("without_the_package")
def test_the_solution_of_the_page_is_the_files() -> None:
    roles = solved(CHAPTER)["roles"]
    assert written_ring.whole(roles) == written_ring.whole(written_ring.solution())
