"""Which blocks copy heads that are shared, and how many keys a row sees, by runs."""

from __future__ import annotations

import pytest

from phasebit.chapters.attention_again import shared_loads
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.chapters.attention_again.shared_loads import Copied, Heads
from phasebit.edits import replace_once


@pytest.mark.nvcc
@pytest.mark.parametrize("as_rows", [False, True])
def test_who_copies_what(as_rows: bool) -> None:
    heads = Heads(4, 2)
    found = shared_loads.copies(heads, 30, 140, as_rows=as_rows)
    blocks = {0: (0, 1), 1: (2, 3)} if as_rows else {head: (head,) for head in range(4)}
    expected = [Copied(block, "Q", head, 30) for block, mine in blocks.items() for head in mine]
    expected += [Copied(block, tensor, mine[0] // 2, 140)
                 for block, mine in blocks.items() for tensor in "KV"]  # fmt: skip
    assert sorted(found) == sorted(expected)


@pytest.mark.nvcc
def test_a_wrong_head_of_keys_is_not_drawn() -> None:
    text = shared_loads.one_by_one(Heads(4, 2))
    planted = replace_once(text, "head / 2,", "head % 2,")
    with pytest.raises(RuntimeError, match="shared heads is not right"):
        shared_loads.copies(Heads(4, 2), 30, 140, as_rows=False, text=planted)


@pytest.mark.nvcc
def test_how_many_keys_a_row_sees() -> None:
    assert shared_loads.seen(3, 130, 8) == [128 + row // 8 for row in range(24)]
    planted = kernels.source(kernels.POLYNOMIAL)  # whose mask takes a row for a position
    assert shared_loads.seen(3, 130, 8, planted) == list(range(107, 131))
    with pytest.raises(ValueError, match="fewer than 64 of 80 keys"):
        shared_loads.seen(3, 80, 8)


@pytest.mark.nvcc
def test_the_pictures_say_what_the_page_does() -> None:
    lines = shared_loads.picture().alt.splitlines()[1:]
    keys = [line.split("|")[1].split()[-2:] for line in lines]
    assert [each[0] for each in keys] == ["200"] * 4 + ["."] * 4 + ["200", "."]
    assert [each[1] for each in keys] == ["."] * 4 + ["200"] * 4 + [".", "200"]
    assert lines[-1].split("|")[1].split()[4:8] == ["64"] * 4, "the 256 rows of a block"
    drawn = shared_loads.rows(3, 130, 8, by_row=True)
    assert drawn.narrow and "107 108 109" in " ".join(drawn.alt.split())
