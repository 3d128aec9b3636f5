"""The glossary: each word once, in the order of the alphabet, each with its meaning."""

from __future__ import annotations

from .notebooks import ROOT

PAGE = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")


def entries(page: str) -> list[tuple[list[str], str]]:
    """The words of each entry, and what they mean."""
    body = page.partition("```{glossary}\n")[2].partition("```")[0]
    found = []
    for block in body.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith(":")]
        if not lines:
            continue
        words = [line for line in lines if not line.startswith(" ")]
        found.append((words, " ".join(line.strip() for line in lines if line.startswith(" "))))
    return found


def twice(page: str) -> list[str]:
    """Words that have more than one entry."""
    words = [word.strip().lower() for group, _ in entries(page) for word in group]
    return sorted({word for word in words if words.count(word) > 1})


def test_each_word_stands_once_and_has_a_meaning() -> None:
    assert not twice(PAGE)
    for words, meaning in entries(PAGE):
        assert words and meaning.endswith((".", ".)")), words


def test_the_page_is_in_the_order_of_the_alphabet() -> None:
    assert "```{glossary}\n:sorted:\n" in PAGE


def test_a_word_that_stands_twice_is_noticed() -> None:
    planted = "```{glossary}\n:sorted:\n\nslot\nstage\n  A.\n\nring\n  B.\n\nStage\n  C.\n```\n"
    assert entries(planted)[0] == (["slot", "stage"], "A.")
    assert twice(planted) == ["stage"]
