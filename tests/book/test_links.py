"""Mentions of chapters, terms and names lead where they say, and nothing else is touched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import links

from .test_glossary import PAGE, entries

GLOSSARY = """# Words
```{glossary}
slot
stage
  A buffer of the ring.

bank conflict
  Two lanes, one bank & two words.

wait
  To ask again.
```
"""
CHAPTER = """# {title}

Slots of chapter 2, and of chapters 1 and 2; of chapter 9. Stages, slots again, and a wait.
A [slot](https://example.org), a `slot`, bank conflicts, `pb.compile`, `pb.other`.
"""
FILES = """# Files

The page's own `ring.cu`, chapter 2's `ring.cu`, chapter 1's `one.cu`; after chapter 2 `both.cu`.
`phasebit.pipeline`, `import phasebit.pipeline.ring as ring`, `pb.compile()`, `phasebit.nothing`.

```{figure} picture.svg
A picture of chapter 2.
```
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small book: two chapters, a glossary and a page that documents one name."""
    root = tmp_path_factory.mktemp("small_book")
    (root / "book").mkdir()
    pages = {
        "glossary": GLOSSARY,
        "01_one": CHAPTER.format(title="One"),
        "02_two": CHAPTER.format(title="A bank conflict in chapter 1"),
        "one_more": FILES,
        "api": "# Names\n```{eval-rst}\n.. py:function:: phasebit.compile(x)\n```\n",
    }
    for name, text in pages.items():
        (root / "book" / f"{name}.md").write_text(text, encoding="utf-8")
    for file in ("kernels/one/ring.cu", "kernels/two/ring.cu", "kernels/one/one.cu",
                 "kernels/two/both.cu", "kernels/three/both.cu", "phasebit/pipeline/ring.py",
                 "book/picture.svg"):  # fmt: skip
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text("<svg xmlns='http://www.w3.org/2000/svg'/>", encoding="utf-8")
    extensions = ["myst_parser", "phasebit_book.links"]
    (root / "conf.py").write_text(
        f"import sys; sys.path[:0] = [{str(ROOT / 'book' / '_ext')!r}, {str(ROOT)!r}]\n"
        f"extensions = {extensions}\nroot_doc = 'book/glossary'\n"
        "html_theme_options = {'repository_url': 'https://example.org/r'}\n",
        encoding="utf-8",
    )
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", root, root / "html"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return root / "html" / "book"


def linked(site: Path, page: str) -> list[tuple[str, str]]:
    """What is linked in a page's text, without its tags, and where to."""
    html = (site / f"{page}.html").read_text(encoding="utf-8")
    text = html[html.index("<h1") : html.index('<div class="sphinxsidebar"')]
    found = re.findall(r'<a class="[^"]*(?:internal|external)"[^>]*href="([^"]*)"[^>]*>(.*?)</a>',
                       text, re.DOTALL)  # fmt: skip
    return [(re.sub(r"<[^>]*>", "", words), to) for to, words in found]


def test_each_mention_leads_to_its_page(site: Path) -> None:
    assert linked(site, "01_one") == [
        ("Slots", "glossary.html#term-slot"),
        ("chapter 2", "02_two.html"),
        ("2", "02_two.html"),
        ("Stages", "glossary.html#term-stage"),
        ("slot", "https://example.org"),
        ("bank conflicts", "glossary.html#term-bank-conflict"),
        ("pb.compile", "api.html#phasebit.compile"),
    ]


def test_headings_and_the_page_itself_are_left_alone(site: Path) -> None:
    assert [words for words, _ in linked(site, "02_two")] == [
        "Slots", "1", "Stages", "slot", "bank conflicts", "pb.compile",
    ]  # fmt: skip
    assert all("term" not in to for _, to in linked(site, "glossary"))


def test_files_modules_and_what_a_caption_mentions_lead_where_they_are(site: Path) -> None:
    files = "https://example.org/r/blob/main"
    assert linked(site, "one_more") == [
        ("ring.cu", f"{files}/kernels/one/ring.cu"),
        ("chapter 2", "02_two.html"),
        ("ring.cu", f"{files}/kernels/two/ring.cu"),
        ("chapter 1", "01_one.html"),
        ("one.cu", f"{files}/kernels/one/one.cu"),
        ("chapter 2", "02_two.html"),
        ("both.cu", f"{files}/kernels/two/both.cu"),
        ("phasebit.pipeline", f"{files}/phasebit/pipeline"),
        ("import phasebit.pipeline.ring as ring", f"{files}/phasebit/pipeline/ring.py"),
        ("pb.compile()", "api.html#phasebit.compile"),
        ("chapter 2", "02_two.html"),
    ]


def test_a_term_carries_its_meaning(site: Path) -> None:
    html = (site / "01_one.html").read_text(encoding="utf-8")
    assert 'data-meaning="A buffer of the ring."' in html
    assert 'data-meaning="Two lanes, one bank &amp; two words."' in html


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("chapter 12's ring", {"chapter 12": 12}),
        ("Chapters 9, 11 and 14", {"9": 9, "11": 11, "14": 14}),
        ("chapters 6 to 8 or 10", {"6": 6, "8": 8, "10": 10}),
        ("its 3 chapters, ch. 16", {}),
    ],
)
def test_where_chapters_are_mentioned(text: str, numbers: dict[str, int]) -> None:
    assert {text[begin:end]: number for begin, end, number in links.chapters(text)} == numbers


def test_every_plain_word_is_a_term() -> None:
    terms = {word.strip() for words, _ in entries(PAGE) for word in words}
    assert terms >= links.PLAIN
