"""The book's Sphinx extension, one module at a time."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from phasebit import timeline

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import execution, exercises, lab, tiers
from phasebit_book.inline_svg import heading, inline, svg_of
from sphinx.errors import ConfigError

SVG = """<?xml version="1.0"?><!DOCTYPE svg PUBLIC "x" "y">
<svg role="img" aria-labelledby="t d"><title id="t">A</title><style>*{fill:red} .a, b{x:y}</style>
<defs><clipPath id="c"/></defs><use xlink:href="#c"/><g clip-path="url(#c)" data-id="c"/></svg>"""


def test_inlined_ids_and_styles_stay_in_their_picture() -> None:
    page = inline(SVG, "n1")
    assert not re.search(r"<\?xml|<!DOCTYPE", page)
    assert 'id="n1-t"' in page and 'aria-labelledby="n1-t n1-d"' in page
    assert 'href="#n1-c"' in page and "url(#n1-c)" in page and 'data-id="c"' in page
    assert "#n1 *{fill:red}" in page and "#n1 .a, #n1 b{x:y}" in page


def test_a_timelines_title_stands_above_it() -> None:
    drawn = timeline.Timeline(["a"], [timeline.Span("a", 0, 2, "produce", "1")], title="A & B")
    assert heading(svg_of(drawn)) == (
        '<div class="pb-picture-title" aria-hidden="true">A &amp; B</div>'
    )
    nameless = timeline.Timeline(["a"], [timeline.Span("a", 0, 2, "produce", "1")])
    assert heading(svg_of(nameless)) == ""
    assert heading("<svg><title>A chart (of one)</title></svg>") == ""


def test_two_inlined_pictures_share_no_id() -> None:
    ids = re.findall(r'(?<![\w-])id="([^"]+)"', inline(SVG, "n1") + inline(SVG, "n2"))
    assert len(ids) == len(set(ids)) == 6


@pytest.mark.parametrize("svg", ["<p>no</p>", "<svg>", "<svg><style>@media x{a{}}</style></svg>"])
def test_what_cannot_be_inlined_is_refused(svg: str) -> None:
    with pytest.raises(ValueError, match=r"the picture|at-rule"):
        inline(svg, "n")


@pytest.mark.parametrize(
    ("tier", "where_it_runs"),
    [
        ("cpu", {"cpu", "sm_75", "sm_80", "sm_90a", "sm_100a"}),
        ("sm_75", {"sm_75", "sm_80", "sm_90a", "sm_100a"}),
        ("sm_80", {"sm_80", "sm_90a", "sm_100a"}),
        ("sm_90a", {"sm_90a"}),
        ("sm_100a", {"sm_100a"}),
    ],
)
def test_tier_table(tier: str, where_it_runs: set[str]) -> None:
    words = tiers.abilities(tier, has_lab=False)
    assert {column for column, word in words.items() if word == "runs"} == where_it_runs
    assert words["browser"] == "read"
    assert tiers.abilities(tier, has_lab=True)["browser"] == "lab"


def test_only_a_tier_with_records_promises_times() -> None:
    for tier in tiers.TIERS[1:]:
        assert ("recorded" in tiers.says(tier, has_lab=False)) == (tier != "sm_100a")
    records = [json.loads(path.read_text("utf-8")) for path in (ROOT / "records").glob("*.json")]
    targets = {record.get("target") for record in records if "gpu" in record}
    assert "sm_90a" in targets and "sm_100a" not in targets, "now there are times"


def test_the_lab_archive_runs_with_nothing_but_python(tmp_path: Path) -> None:
    """What Pyodide gets: no NumPy, no site-packages, only the archive and lab.py."""
    archive = tmp_path / "phasebit.zip"
    lab.pack(ROOT / "phasebit", archive)
    program = (
        f"import sys; sys.path[:0] = [{str(archive)!r}, {str(ROOT / 'book' / '_static')!r}]\n"
        "import lab\n"
        "good = lab.show(producers=1, consumers=1, slots=2, produce=4, consume=4, jobs=6)\n"
        "assert good['svg'].startswith('<svg') and '6 jobs in' in good['numbers'], good\n"
        "for bad in ({'slots': 0}, {'produce': ''}, {'slots': 1000}, {'jobs': 0},\n"
        "            {'see_full': -1}):\n"
        "    p = dict(producers=1, consumers=1, slots=2, produce=4, consume=4, jobs=6) | bad\n"
        "    answer = lab.show(**p)\n"
        "    assert set(answer) == {'error'} and answer['error'].startswith(*bad), answer\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_the_archive_judges_the_exercises_of_part_one(tmp_path: Path) -> None:
    archive = tmp_path / "phasebit.zip"
    lab.pack(ROOT / "phasebit", archive)
    part = ROOT / "book" / "part1_pipelines"
    given = {path.stem[3:]: exercises.before(path) for path in sorted(part.glob("*.ipynb"))}
    program = (
        f"import sys; sys.path[:0] = [{str(archive)!r}, {str(ROOT / 'book' / '_static')!r}]\n"
        "import exercise\n"
        f"given = {given!r}\n"
        "said = exercise.check('def f(i, n):\\n    return i % n, i // n % 2\\n'\n"
        "    'print(1)\\nbarriers.stage_and_phase(f)', given['barriers'])\n"
        "assert said['verdict'].startswith('stage_and_phase: OK') and said['output'] == '1', said\n"
        "said = exercise.check('rates.fewest_slots(lambda *a: 1)', given['how_fast'])\n"
        "assert 'not right yet' in said['verdict'], said\n"
        "said = exercise.check('pipelines.waited(...)', given['state_machine'])\n"
        "assert said['verdict'] == 'waited: not answered yet', said\n"
        "said = exercise.check('x = 1\\nx.y', given['state_machine'])\n"
        "assert said['error'].startswith('Line 2: AttributeError'), said\n"
    )
    run = subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr


def test_the_lab_archive_is_the_same_from_the_same_sources(tmp_path: Path) -> None:
    archives = [tmp_path / "a.zip", tmp_path / "b.zip"]
    for archive in archives:
        lab.pack(ROOT / "phasebit", archive)
    assert archives[0].read_bytes() == archives[1].read_bytes()
    assert "phasebit/pipeline/law.py" in zipfile.ZipFile(archives[0]).namelist()


def test_execution_mode_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    config: dict[str, str] = {}
    execution.choose(None, config)  # type: ignore[arg-type]
    assert config == {"nb_execution_mode": "force"}
    monkeypatch.setenv("PHASEBIT_EXECUTE", "cache")
    with pytest.raises(ConfigError, match="set it to one of force, off"):
        execution.choose(None, config)  # type: ignore[arg-type]


def test_a_cuda_cell_is_read_as_cuda_after_its_first_line() -> None:
    from phasebit_book.cuda_cells import CudaCellLexer
    from pygments.token import Error, Keyword

    text = "%%cuda -lineinfo\n__global__ void k(float *x) { x[threadIdx.x] = 1.f; }  // ⏱\n"
    tokens = list(CudaCellLexer().get_tokens(text))
    assert "".join(value for _, value in tokens) == text
    assert not [value for token, value in tokens if token is Error]
    assert any(value == "__global__" and token in Keyword for token, value in tokens)


def test_a_kernel_in_a_string_is_coloured_as_what_it_is() -> None:
    from phasebit_book.cuda_cells import KernelCellLexer, kernels
    from pygments.lexers.c_like import CudaLexer
    from pygments.lexers.ptx import PtxLexer
    from pygments.token import Keyword, String

    kernel = "\n__global__ void k(int* x) {\n  int i = 0;  // %d\n  x[i] = i;\n}\n"
    text = f'size = 3\nkernel = r"""{kernel}"""\n' + "for i in r'''words''': print(i)\n"
    (one,) = kernels(text)
    assert text[one[0] : one[1]] == kernel and one[2] is CudaLexer
    tokens = list(KernelCellLexer().get_tokens(text))
    assert "".join(value for _, value in tokens) == text
    assert {value for token, value in tokens if token in Keyword} >= {"__global__", "void", "for"}
    assert any("words" in value for token, value in tokens if token in String)
    assert kernels(text.replace('r"""', '"""'))
    assert not kernels('def f():\n    """Ends;\n    so."""')
    (one,) = kernels('HEAD + """\n.visible .entry k() {\n  mov.u32 %r1, %tid.x;\n  ret;\n}\n"""')
    assert one[2] is PtxLexer


LISTINGS = {
    "a kernel": (
        "cuda",
        "__global__ void k(int* x)\n{\n    int i = threadIdx.x;\n    x[i] = i;\n}\n",
    ),
    "with numbers": (
        "cuda",
        "  4\n  5  constexpr int N = 3;\n  6  void f() {\n  7      g(N);\n  8  }\n",
    ),
    "a difference": ("cuda", "- for (int i = 0; i < n; ++i) {\n+ for (;;) {\n      f(i);\n  }\n"),
    "a statement of several lines": (
        "cuda",
        'for (int i = 0; i < n; ++i)\n    asm volatile("{ mma"\n    " [%0], (%1"\n'
        '    :: "r"(a),\n    "r"(b));\n',
    ),
    "calls": ("cuda", "nothing found:\nptx::fence();\ntail(a);\nptx::commit(&done);\n"),
    "prose in brackets": (None, "a pipeline (commit\nand acquire, for (b)\nif (c)\nno tail)\n"),
    "Python": ("python", "# phasebit/x.py\ndef f(x):\n    y = x\n    z = y\n    return z\n"),
    "a report": (None, "race: thread 0 of block 0 reads it;\n  nothing orders the two\na\nb\nc\n"),
    "PTX": (None, "mov.u32 %r1, %tid.x;\nadd.s32 %r2, %r1, 1;\nret;\nret;\n"),
    "a table": (None, "stride  sectors\n     0        1\n     1        4\n     2        8\n"),
    "three lines": (None, "int i;\nint j;\nint k;\n"),
}


@pytest.mark.parametrize("what", LISTINGS)
def test_a_listing_in_an_output_is_coloured_as_what_it_is(what: str) -> None:
    from phasebit_book.cuda_cells import language

    expected, text = LISTINGS[what]
    assert language(text) == expected


@pytest.mark.parametrize("style", ["fill: red; opacity: 0.5", "clip-path: url(#c)"])
def test_what_marks_do_not_inherit_stays_theirs(style: str) -> None:
    dots = "".join(f'<use href="#a" x="{x}" style="{style}"/>' for x in range(3))
    assert dots in inline(f"<svg>{dots}</svg>", "n").replace("#n-", "#")


def test_marks_of_one_style_are_a_group() -> None:
    marks = ["red", "red", "blue", "red"]
    dots = "".join(f'<use href="#a" style="fill: {colour}"/>' for colour in marks)
    group = '<g style="fill: red"><use href="#n-a"/><use href="#n-a"/></g>'
    page = inline(f"<svg>{dots}</svg>", "n")
    assert group in page and page.count("style=") == 1 + 3  # the picture's own, and three colours
