"""Each sentence of the book that names a cause stands in a table, with what shows it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import causes  # noqa: E402

from phasebit import contents  # noqa: E402

from .notebooks import CHAPTERS  # noqa: E402

each = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)


@each
def test_each_causal_sentence_is_in_the_table_and_each_of_the_table_on_the_page(path: Path) -> None:
    name = contents.name(path)
    assert not causes.missing(name, path), f"python tools/causes.py {name} prints what to fill in"
    assert not causes.stale(name, path)


@each
def test_what_shows_a_cause_is_there(path: Path) -> None:
    code = causes.page(path)[1]
    for cause in causes.table(contents.name(path)):
        assert cause.shown_by, f"nothing shows: {cause.sentence}"
        for one in cause.shown_by:
            why = causes.unshown(one, code)
            assert why is None, f"{cause.sentence}: {why}"


def test_a_table_is_of_a_chapter() -> None:
    names = {path.stem for path in causes.TABLES.glob("*.toml")}
    assert names <= {contents.name(path) for path in CHAPTERS}


PAGE = """\
The ring is *slow* because it
waits. It works: nobody asks why. (Therefore none is lost.)

- Due to banks, no.

:::{exercise} Not these
This is why, because we ask.
:::

```python
because = 1
```

:::{note}
That is why it stops.
:::

The first wait passes, so it is free. Nobody waits, so the ring is faster; it uses sm_90, since
sm_90 has it. Is it slower, so that it costs? The slower role sets the pace.

:::{exercise} Nor these
Therefore we ask again.
:::
"""


def test_sentences_that_name_a_cause_are_seen() -> None:
    assert causes.causal(PAGE) == [
        "The ring is slow because it waits.",
        "(Therefore none is lost.)",
        "Due to banks, no.",
        "That is why it stops.",
        "Nobody waits, so the ring is faster; it uses sm_90, since sm_90 has it.",
        "The slower role sets the pace.",
    ]


@pytest.mark.parametrize(
    "planted",
    ["cell: not there", "record: no.json", "test: tests/book/test_causes.py::test_no",
     "test: tests/none.py::test_no", "source: nobody2020", "rumour: so they say", "reason: "],
)  # fmt: skip
def test_evidence_that_is_not_there_is_noticed(planted: str) -> None:
    assert causes.unshown(planted, ["x = 1"])


@pytest.mark.parametrize(
    "there",
    ["cell: x = 1", "test: tests/book/test_causes.py::test_a_table_is_of_a_chapter",
     "reason: two threads share one slot"],
)  # fmt: skip
def test_evidence_that_is_there_is_found(there: str) -> None:
    assert causes.unshown(there, ["x = 1"]) is None
