"""Print the book: all pages of _build/html as one PDF, by Chromium.

    .venv/bin/python tools/pdf.py _build/the-phase-bit.pdf

The pages are put behind each other in one document, in the order of _toc.yml: links between them
become links within it, what is folded is unfolded, every cell of code gets a number. Pictures
stay vectors, headings become the outline. The index at the end has the terms of the glossary: the
page of the definition, then where each chapter first says the word. It is printed twice: the first
time says on which page each chapter begins and each term stands, the second has these numbers in
its contents and its index. What Chromium has written is compressed at the end.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import sys
import threading
import zlib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from serve import server  # noqa: E402

from conftest import chromium  # noqa: E402

WHOLE = 24
"""Lines of a cell that is not cut by the end of a page."""

SECONDS = 240
"""How long Chromium may lay it out."""

TOGETHER = 200
"""Small objects that are compressed together: a reader unpacks them all to see one."""

STYLE = """
@page { size: A4; margin: 18mm 16mm 20mm; }
html { font-size: 10.5pt; }
body { counter-reset: listing; }
.pb-page { break-before: page; }
.pb-page:first-of-type { break-before: auto; }
.pb-cover { height: 235mm; display: flex; flex-direction: column; justify-content: center; }
.pb-cover img { width: 90mm; margin-bottom: 12mm; }
.pb-cover p { font-size: 15pt; line-height: 1.5; max-width: 120mm; }
.pb-contents { break-before: page; break-after: page; }
.pb-contents ol { list-style: none; padding: 0; }
.pb-contents li { display: flex; gap: 0.6em; align-items: baseline; line-height: 1.5; }
.pb-contents li::before { content: ""; order: 1; flex: 1; border-bottom: 1px dotted #888; }
.pb-contents .pb-number { order: 2; width: 2.4em; text-align: right; }
.pb-index { break-before: page; }
.pb-index ul { columns: 3; column-gap: 6mm; list-style: none; padding: 0; margin: 0; }
.pb-index li { font-size: 8.5pt; line-height: 1.35; padding-left: 1em; text-indent: -1em;
  break-inside: avoid; }
.pb-index a { text-decoration: none; }
.pb-index .pb-defined { font-weight: 700; }
.pb-contents .pb-part { font-weight: 700; margin-top: 0.7em; }
article.bd-article { max-width: none; padding: 0; font-size: 10.5pt; }
.bd-article :is(p, ul, ol, dl, blockquote) { max-width: none !important; }
h1, h2, h3, h4 { break-after: avoid; }
.cell { break-inside: auto; }
.pb-whole, .pb-picture, .admonition-title { break-inside: avoid; }
.admonition-title { break-after: avoid; }
/* Shadows would be pictures of dots; the id is for its weight. */
:not(#none) { box-shadow: none !important; }
.cell_input::before {
  counter-increment: listing; content: "Listing " counter(listing);
  display: block; font-size: 8pt; color: #555; break-after: avoid;
}
.bd-article pre { font-size: 7.6pt !important; white-space: pre-wrap !important;
  orphans: 4; widows: 4; }
.pb-picture svg { max-width: 100% !important; min-width: 0 !important; height: auto; }
.bd-article table { display: table; width: auto; font-size: 8.5pt; break-inside: avoid; }
.bd-article table.table:has(th:nth-child(6)) { font-size: 7.4pt; }
.bd-article table.table:has(th:nth-child(10)) { font-size: 5.8pt; }
.bd-article table.table code { font-size: 1em !important; }
.bd-article table.table :is(th, td) { min-width: 0 !important; padding-inline: 0.4em !important; }
.bd-article table.table :is(th, td, code, .pre) { white-space: normal !important;
  overflow-wrap: anywhere; }
/* What moves in a browser is a sentence here, and needs no room for more. */
:is(.phasebit-explorer, .phasebit-lab, .phasebit-replay, .phasebit-ring, .phasebit-stepper) {
  min-height: 0 !important; }
.bd-article :is(caption, figcaption) { color: #444; }
.bd-article caption { display: table-caption; caption-side: top; }
thead { display: table-header-group; }
details > summary { list-style: none; color: #555; }
.cell > details > summary { display: none !important; } /* "Hide the output" */
"""

ASSEMBLE = r"""async ({ pages, style, title, whole }) => {
  const here = location.origin + "/";
  const place = (page) => page.replace(/\W+/g, "-");
  const body = document.createElement("div");
  const cover = document.createElement("section");
  cover.className = "pb-cover";
  const about = document.createElement("p");
  about.textContent = document.querySelector("meta[name=description]")?.content ?? "";
  const logo = document.querySelector("img.logo__image.only-light")?.src;
  cover.innerHTML = logo ? `<img src="${logo}" alt="${title}">` : `<p class="h1">${title}</p>`;
  cover.append(about);
  const contents = document.createElement("section");
  contents.className = "pb-contents bd-article";
  const list = document.createElement("ol");
  const heading = document.createElement("p");
  heading.className = "h2";
  heading.textContent = "Contents";
  contents.append(heading, list);
  body.append(cover, contents);
  const entry = (id, words) => {
    const line = document.createElement("li");
    const link = document.createElement("a");
    link.href = `#${id}`;
    link.textContent = words;
    const number = document.createElement("span");
    number.className = "pb-number";
    number.dataset.of = id;
    line.append(link, number);
    list.append(line);
    return line;
  };
  for (const page of pages) {
    const text = await (await fetch(here + page)).text();
    const read = new DOMParser().parseFromString(text, "text/html");
    const article = read.querySelector("article.bd-article");
    const mine = place(page);
    article.querySelectorAll("script, .headerlink, button, .tag_setup, .pb-pdf")
      .forEach((node) => node.remove());
    article.querySelectorAll("details").forEach((node) => (node.open = true));
    article.querySelectorAll("[id]").forEach((node) => {
      if (!node.closest("svg, .pb-picture")) node.id = `${mine}--${node.id}`;
    });
    article.querySelectorAll("a[href]").forEach((link) => {
      const to = new URL(link.getAttribute("href"), here + page);
      if (to.origin !== location.origin) return;
      const target = decodeURI(to.pathname).slice(1);
      const part = to.hash ? `--${to.hash.slice(1)}` : "";
      if (pages.includes(target)) link.setAttribute("href", `#${place(target)}${part}`);
      else link.removeAttribute("href"); // a file that is not printed
    });
    article.querySelectorAll("img").forEach((picture) => {
      picture.src = new URL(picture.getAttribute("src"), here + page);
    });
    article.querySelectorAll("pre").forEach((code) => {
      // What is short stays whole; a longer one begins and ends with some lines (orphans, widows).
      if (code.textContent.trim().split("\n").length <= whole)
        (code.closest(".cell_input") ?? code).classList.add("pb-whole");
    });
    article.classList.add("pb-page");
    article.id = mine;
    body.append(document.adoptNode(article));
    const line = entry(mine, article.querySelector("h1").textContent.trim());
    if (page.endsWith("/part.html")) line.className = "pb-part";
  }
  /* Links to the glossary carry the words; each gets a name, so that its page can be told. */
  const terms = new Map();
  body.querySelectorAll('a[href*="--term-"]').forEach((link, number) => {
    const term = link.getAttribute("href").slice(1);
    if (!terms.has(term)) terms.set(term, []);
    link.id ||= `pb-word-${number}`;
    terms.get(term).push(link.id);
  });
  const defined = [...body.querySelectorAll('dt[id*="--term-"]')].map((entry) => {
    const copy = entry.cloneNode(true);
    copy.querySelectorAll("math annotation").forEach((node) => node.remove());
    return { id: entry.id, words: copy.textContent.trim() };
  }).sort((a, b) => a.words.localeCompare(b.words, "en"));
  if (defined.length) {
    const index = document.createElement("section");
    index.className = "pb-index bd-article";
    index.id = "pb-index";
    const list = document.createElement("ul");
    for (const { id, words } of defined) {
      const line = document.createElement("li");
      line.append(words);
      for (const at of [id, ...(terms.get(id) ?? [])]) {
        const link = document.createElement("a");
        link.href = `#${at}`;
        link.className = at === id ? "pb-number pb-defined" : "pb-number";
        link.dataset.of = at;
        link.textContent = "000"; // as wide as a number will be
        line.append(" ", link);
      }
      list.append(line);
    }
    const name = document.createElement("h1");
    name.textContent = "Index";
    index.append(name, list);
    body.append(index);
    entry(index.id, name.textContent);
  }
  document.title = title;
  document.documentElement.dataset.theme = "light";
  document.body.replaceChildren(body);
  document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
  const broken = [...document.querySelectorAll('a[href^="#"]')]
    .filter((link) => !document.getElementById(decodeURIComponent(link.hash.slice(1))));
  broken.forEach((link) => link.removeAttribute("href"));
  await document.fonts.ready;
  await Promise.all([...document.images].map((one) => one.decode().catch(() => 0)));
  return { pages: pages.length, terms: defined.length,
           listings: document.querySelectorAll(".cell_input").length,
           broken: broken.map((link) => link.textContent) };
}"""


PLATES = """() => {
  for (const text of document.querySelectorAll("svg text")) {
    const look = getComputedStyle(text);
    if (look.paintOrder !== "stroke" || look.stroke === "none") continue;
    const { x, y, width, height } = text.getBBox(); // of what is not shown: nothing
    const plate = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    const at = { x: x - 1, y: y + 0.15 * height, width: width + 2, height: 0.75 * height };
    for (const [name, value] of Object.entries(at)) plate.setAttribute(name, value.toFixed(1));
    plate.setAttribute("transform", text.getAttribute("transform") ?? "");
    plate.style.cssText = `fill:${look.stroke};stroke:none`;
    text.style.stroke = "none";
    if (width) text.before(plate);
  }
}"""
"""Behind letters with a seam a plate in place of it: a seam would make each letter a drawing of
kilobytes."""


NUMBERS = """(places) => {
  for (const one of document.querySelectorAll('.pb-number[data-of]'))
    one.textContent = String(places[one.dataset.of] ?? '');
  for (const line of document.querySelectorAll('.pb-index li')) {
    const met = new Set();
    for (const one of [...line.querySelectorAll('.pb-number')]) {
      if (one.textContent && !met.has(one.textContent)) met.add(one.textContent);
      else { one.previousSibling.remove(); one.remove(); } // with the space before it
    }
  }
  const said = (which) => [...document.querySelectorAll(which)].map((one) => one.textContent);
  return { numbers: said('.pb-contents .pb-number'), index: said('.pb-index li') };
}"""


def pages(toc: Any, html: Path) -> Iterator[str]:
    """The pages of a table of contents that were rendered, in reading order."""
    if isinstance(toc, list):
        for each in toc:
            yield from pages(each, html)
    elif isinstance(toc, dict):
        for key in ("root", "file"):
            if key in toc and (html / f"{toc[key]}.html").is_file():
                yield f"{toc[key]}.html"
        for key in ("parts", "chapters", "sections"):
            yield from pages(toc.get(key, []), html)


def print_book(chrome: Any, html: Path, target: Path, toc: Any, title: str) -> dict[str, Any]:
    """Write the PDF by a browser of Playwright's that runs.

    What it has: ``pages`` of the site, ``listings``, ``terms`` and lines of the ``index``, the
    ``numbers`` of its contents, ``broken``: texts of links that lead nowhere.
    Raises ``SystemExit`` with a sentence where there is no site.
    """
    every = list(dict.fromkeys(pages(toc, html)))
    if not every:
        raise SystemExit(f"There are no pages in {html}: run 'make site' first.")
    site = server(html)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    try:
        tab = chrome.new_page(viewport={"width": 900, "height": 1200})
        tab.set_default_timeout(SECONDS * 1000)
        tab.goto(f"http://127.0.0.1:{site.server_port}/{every[0]}")
        tab.emulate_media(media="print", color_scheme="light")
        made: dict[str, Any] = tab.evaluate(
            ASSEMBLE, {"pages": every, "style": STYLE, "title": title, "whole": WHOLE}
        )
        tab.evaluate(PLATES)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(_printed(tab))
        made |= tab.evaluate(NUMBERS, places(target.read_bytes()))
        target.write_bytes(_printed(tab))
        tab.close()
    finally:
        site.shutdown()
    return made


def _printed(tab: Any) -> bytes:
    return bytes(
        tab.pdf(
            prefer_css_page_size=True, outline=True, tagged=True,
            print_background=True, display_header_footer=True, header_template="<span></span>",
            footer_template='<div style="width:100%;text-align:center;font-size:8px">'
            '<span class="pageNumber"></span></div>',
        )
    )  # fmt: skip


def places(pdf: bytes) -> dict[str, int]:
    """Name of a place in a PDF of Chromium's -> the number of its page, from 1 on."""
    kids = {
        int(number): [int(one) for one in re.findall(rb"(\d+) 0 R", inside)]
        for number, inside in re.findall(
            rb"(\d+) 0 obj\s*<</Type /Pages\b[^>]*?/Kids \[([^\]]*)\]", pdf
        )
    }
    (root,) = set(kids) - {one for few in kids.values() for one in few}

    def leaves(node: int) -> Iterator[int]:
        for one in kids.get(node, []):
            yield from leaves(one) if one in kids else [one]

    page = {leaf: number for number, leaf in enumerate(leaves(root), 1)}
    return {
        name.decode(): page[int(leaf)]
        for name, leaf in re.findall(rb"/([^\s/\[]+) \[(\d+) 0 R /XYZ", pdf)
    }


def packed(pdf: bytes) -> bytes:
    """The same document of Chromium's, a third as large: its small objects in compressed streams.

    Chromium writes each object as text of its own, with a line of twenty bytes in a table; most
    say what is a heading, a cell or a link. PDF 1.5 has streams for both (ISO 32000-1, 7.5.7 and
    7.5.8). What was a stream stays as it is.
    """
    table, trailer = pdf[int(pdf.rpartition(b"startxref")[2].split()[0]) :].split(b"trailer")
    lines = [line.split() for line in table.splitlines()[3:]]  # after number 0, which is none
    if any(use != b"n" for _, _, use in lines):
        raise ValueError("the PDF has numbers without an object: it is not one of Chromium's")
    begins = {number: int(place) for number, (place, _, _) in enumerate(lines, 1)}
    after = dict(pairwise(sorted([*begins.values(), len(pdf) - len(table) - len(trailer) - 7])))
    out, where = bytearray(b"%PDF-1.5\n%\xe2\xe3\xcf\xd3\n"), {0: (0, 0, 65535)}
    small: list[tuple[int, bytes]] = []

    def stream(number: int, told: bytes, data: bytes) -> None:
        where[number] = 1, len(out), 0
        data = zlib.compress(data, 9)
        out.extend(b"%d 0 obj\n<<%b /Filter /FlateDecode /Length %d>> stream\n%b\nendstream\n"
                   b"endobj\n" % (number, told, len(data), data))  # fmt: skip

    for number, begin in begins.items():
        text = pdf[begin : after[begin]]
        body = text.removeprefix(b"%d 0 obj\n" % number).rstrip().removesuffix(b"endobj").rstrip()
        if body.endswith(b"endstream"):
            where[number] = 1, len(out), 0
            out += text
        else:
            small.append((number, body))
    last = len(begins)
    for first in range(0, len(small), TOGETHER):
        few, last, at = small[first : first + TOGETHER], last + 1, 0
        head = []
        for index, (number, body) in enumerate(few):
            where[number] = 2, last, index
            head.append(b"%d %d" % (number, at))
            at += len(body) + 1
        names = b" ".join(head) + b"\n"
        told = b"/Type /ObjStm /N %d /First %d" % (len(few), len(names))
        stream(last, told, names + b"\n".join(body for _, body in few))
    begin, last = len(out), last + 1
    where[last] = 1, begin, 0
    kept = b" ".join(re.findall(rb"/(?:Root|Info) \d+ 0 R|/ID \[.*?\]", trailer))
    told = b"/Type /XRef /W [1 4 2] /Size %d %b" % (last + 1, kept)
    stream(last, told, b"".join(struct.pack(">BIH", *where[n]) for n in range(last + 1)))
    return bytes(out + b"startxref\n%d\n%%%%EOF\n" % begin)


_OFFER = re.compile(r'<p class="pb-pdf">.*?</p>\n')


def offered(page: str, address: str, megabytes: float) -> str:
    """A page whose text ends with a link to the PDF.

    >>> offered(offered("<article></article>", "old", 1), "b.pdf", 20.4)
    '<article><p class="pb-pdf"><a href="b.pdf">The book as a PDF</a> (20 MB)</p>\\n</article>'
    """
    words = f'<a href="{address}">The book as a PDF</a> ({megabytes:.0f} MB)'
    before, end, after = _OFFER.sub("", page).partition("</article>")
    return f'{before}<p class="pb-pdf">{words}</p>\n{end}{after}'


def main(target: Path) -> None:
    """Print the whole book, lay it beside the pages, and name it on the front page."""
    from playwright.sync_api import sync_playwright

    if (browser := chromium()) is None:
        raise SystemExit("Chromium prints the book, and there is none: apt-get install chromium")
    config, order = (
        yaml.safe_load((ROOT / name).read_text(encoding="utf-8"))
        for name in ("_config.yml", "_toc.yml")
    )
    with sync_playwright() as play:
        chrome = play.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        made = print_book(chrome, ROOT / "_build" / "html", target, order, config["title"])
        chrome.close()
    target.write_bytes(packed(target.read_bytes()))
    size = target.stat().st_size / 1e6
    html = ROOT / "_build" / "html"
    shutil.copy(target, html)
    for page in (html / f"{order['root']}.html", html / "index.html"):
        address = os.path.relpath(html / target.name, page.parent)
        page.write_text(offered(page.read_text("utf-8"), address, size), "utf-8")
    print(
        f"{target}: {made['pages']} pages of the site, {made['listings']} listings, "
        f"{made['terms']} terms in the index, {size:.0f} MB."
    )
    if made["broken"]:
        raise SystemExit(f"Links that lead nowhere: {', '.join(made['broken'][:10])}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "_build" / "the-phase-bit.pdf")
