"""How many mistakes are planted in the kernels of Part VI; each has a test elsewhere."""

from __future__ import annotations

import re

from phasebit.chapters.attention_again import attention_slips
from phasebit.chapters.chain import slips
from phasebit.chapters.cute_dsl import pipeline_slips
from phasebit.chapters.low_precision import block_scale_slips
from phasebit.chapters.other_forms import held_weights
from phasebit.chapters.tensor_memory import allocation_slips, cells
from tests.book.notebooks import ROOT

PLANTED = {
    "tensor memory": len(cells.LEFT_OUT) + len(allocation_slips.SLIPS),
    "other forms": len(held_weights.SLIPS),
    "the chain": len(slips.SLIPS),
    "low precision": sum(map(len, block_scale_slips.SLIPS.values())),
    "attention": len(attention_slips.SLIPS),
    "CuTe DSL": len(pipeline_slips.SLIPS),
}


def test_the_page_says_how_many() -> None:
    page = (ROOT / "book/part6_blackwell/part.md").read_text(encoding="utf-8")
    said = re.search(r"(\d+) mistakes are planted .* (\w+), all in CuTe", page, re.DOTALL)
    silent = sum(not slip.says for slip in pipeline_slips.SLIPS.values())
    assert said and int(said[1]) == sum(PLANTED.values()), PLANTED
    assert (said[2], silent) == ("three", 3)
    assert sum(PLANTED.values()) >= 40 and min(PLANTED.values()) >= 5
