"""Listings get numbers where outputs name their lines, and what was found is tinted."""

from __future__ import annotations

import sys

from docutils import nodes

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import listings

KERNEL = "%%cuda\n// A kernel.\n__global__ void f(int* x)\n{\n    x[0] = 1;\n}\n"


def page(*parts: list[nodes.literal_block]) -> nodes.section:
    """A page of parts, each with some listings and outputs."""
    title = nodes.section()
    for blocks in parts:
        title += nodes.section("", *blocks)
    return title


def block(text: str, language: str = "") -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language)


def test_an_output_that_quotes_a_line_numbers_the_kernel_that_has_it() -> None:
    kernel, other = block(KERNEL), block(KERNEL.replace("x[0] = 1", "x[0] = 2"))
    said = block("race: nothing orders these\n    line 4: x[0] = 1;\n")
    page([kernel], [other], [said])
    assert [*listings.spoken_of(said, [kernel, other])] == [kernel]
    wrong = block("line 4: x[0] = 3;")
    page([wrong])
    assert [*listings.spoken_of(wrong, [kernel, other])] == []


def test_an_output_that_quotes_nothing_speaks_of_a_kernel_of_its_part() -> None:
    kernel, near, far = block(KERNEL), block("missing-fence, line 3"), block("a race, line 3")
    page([kernel, near], [far])
    assert [*listings.spoken_of(near, [kernel])] == [kernel]
    assert [*listings.spoken_of(far, [kernel])] == []
    beyond = block("line 77")
    page([kernel, beyond])
    assert [*listings.spoken_of(beyond, [kernel])] == []


def test_a_file_that_a_cell_writes_is_known_by_its_name() -> None:
    writes = block('project.write("reverse.cu", """\n#include <cstdio>\n""")')
    said = block("race: thread 0 reads s: reverse.cu:1;")
    page([writes, said])
    assert [*listings.spoken_of(said, [writes])] == [writes]


def test_what_was_found_is_tinted_where_it_stands() -> None:
    text = "  6  a();\n  7\n  8  b();\n  9  c();\nresult: wrong\nrace\n  8  b();\n  9  c();\n"
    assert listings.faulty(text) == [3, 4]
    assert listings.faulty(text.replace("  9  c();\n", "  9  d();\n", 1)) == [3]
    assert listings.faulty("  6  a();\n  7\n  8  b();\n  9  c();\nresult: right\n") == []
    assert listings.faulty("1 apple\n2 pears\n") == []
