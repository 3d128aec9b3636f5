"""Words of the prose that lead somewhere: "chapter 9", terms, names of the package and of files.

The prose itself stays plain, since Jupyter and Colab show it too. Each mention of a chapter, each
name and each module of the package and each name of a kernel's file becomes a link, modules and
files to the repository; a term of the glossary becomes one where a page mentions it first, and
carries its definition, which shows under the pointer and on focus.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

from phasebit import contents

GLOSSARY = "book/glossary"

PLAIN = {
    "arrive", "box", "clock", "commit", "control", "event", "finding", "flush", "group", "item",
    "job", "kernel", "line", "pair", "persistent", "quarter", "record", "round", "rung", "schedule",
    "state", "sum", "tier", "token", "verdict", "wait", "wave",
}  # fmt: skip
"""Terms that the prose also uses as plain English words: only a ``{term}`` links them."""

# tests/book/test_mentions.py holds that the prose has no other form.
_CHAPTERS = re.compile(r"\b[Cc]hapters?\s\d+(?:(?:,?\s(?:and|or|to)\s|,\s|–)\d+)*")
_NAME = re.compile(r"(?:pb|phasebit)\.([\w.]+)(?:\(\)| = .*)?")
_MODULE = re.compile(r"(?:import )?(phasebit(?:\.\w+)+)(?: as \w+)?")
_WHOSE = re.compile(r"[Cc]hapter\s(\d+)[’']s\s$")
_CLOSED = (
    nodes.reference, nodes.title, nodes.literal, nodes.literal_block, nodes.raw, nodes.comment,
    nodes.math, nodes.math_block, nodes.rubric, addnodes.pending_xref, addnodes.toctree,
)  # fmt: skip


def chapters(text: str) -> Iterator[tuple[int, int, int]]:
    """Where a text mentions chapters: begin, end, number. One chapter's link has its whole mention.

    >>> list(chapters("chapters 2 and 11"))
    [(9, 10, 2), (15, 17, 11)]
    >>> list(chapters("see chapter 3"))
    [(4, 13, 3)]
    """
    for mention in _CHAPTERS.finditer(text):
        numbers = list(re.finditer(r"\d+", mention[0]))
        for number in numbers:
            begin = mention.start() if len(numbers) == 1 else mention.start() + number.start()
            yield begin, mention.start() + number.end(), int(number[0])


class Link(SphinxPostTransform):
    """Put the links into a page that is about to be written."""

    default_priority = 400  # what the author has linked is linked by now

    def run(self, **kwargs: Any) -> None:
        self._met: set[str] = set()
        for text in list(self.document.findall(nodes.Text)):
            if not _inside(text, *_CLOSED) and not _caption_of_another(text):
                self._link(text)
        for name in list(self.document.findall(nodes.literal)):
            if not _inside(name, nodes.reference, addnodes.pending_xref, nodes.title):
                self._link_name(name)

    def _link(self, text: nodes.Text) -> None:
        links = sorted([*self._chapters(text), *self._terms(text)], key=lambda link: link[0])
        pieces: list[nodes.Node] = []
        words, at = text.astext(), 0
        for begin, end, link in links:
            if begin < at:
                continue
            pieces += [nodes.Text(words[at:begin]), link]
            at = end
        if pieces:
            text.parent.replace(text, [*pieces, nodes.Text(words[at:])])

    def _chapters(self, text: nodes.Text) -> Iterator[tuple[int, int, nodes.Node]]:
        for begin, end, number in chapters(text.astext()):
            page = self._numbers.get(number)
            if page and page != self.env.docname:
                title = self.env.titles[page].astext()
                yield begin, end, self._to(page, "", text.astext()[begin:end], title)

    def _terms(self, text: nodes.Text) -> Iterator[tuple[int, int, nodes.Node]]:
        if self.env.docname == GLOSSARY or not _inside(text, nodes.paragraph):
            return
        for match in self._any_term.finditer(text.astext()):
            words = match[0].lower()
            term = words if words in self._glossary else words.removesuffix("s")
            target, meaning = self._glossary[term]
            if target not in self._met:
                self._met.add(target)
                link = self._to(GLOSSARY, target, match[0])
                link["classes"].append("term")
                link["data-meaning"] = meaning
                yield *match.span(), link

    def _link_name(self, name: nodes.literal) -> None:
        match = _NAME.fullmatch(name.astext())
        known = self.env.domaindata["py"]["objects"].get(f"phasebit.{match[1]}") if match else None
        if known and known.docname != self.env.docname:
            link = self._to(known.docname, known.node_id, "")
        elif file := self._kernel(name) or self._module(name.astext()):
            link = nodes.reference("", "", refuri=f"{self._repository}/{file}", internal=False)
        else:
            return
        name.replace_self(link)
        link.append(name)

    def _kernel(self, name: nodes.literal) -> str:
        """Where a kernel's file lies in the repository; nothing where that cannot be told.

        Of several of one name: that of the chapter whose it is said to be, else the page's own, or
        that of the chapter which the page goes on with, else that of the chapter named last before.
        """
        found = [file for file in self._kernels if f"/{file}".endswith(f"/{name.astext()}")]
        if len(found) < 2:
            return "".join(found)
        before = name.parent.children[: name.parent.index(name)]
        text = "".join(node.astext() for node in before)
        own = re.sub(r"^\d+_", "", Path(self.env.docname).name)
        whose = _WHOSE.search(text)
        mentioned = [number for *_, number in chapters(text)]
        folders = {file: file.split("/")[1] for file in found}
        ways = (
            [self._folder(int(whose[1]))] if whose else [],
            [own],
            [folder for folder in folders.values() if own.startswith(f"{folder}_")],
            [self._folder(number) for number in mentioned[-1:]],
        )
        for way in ways:
            if len(of := [file for file, folder in folders.items() if folder in way]) == 1:
                return of[0]
        return ""

    def _folder(self, number: int) -> str:
        """The folder of a chapter's kernels."""
        return re.sub(r"^\d+_", "", Path(self._numbers.get(number, "")).name)

    def _module(self, name: str) -> str:
        """Where a module of the package lies in the repository; nothing where there is none."""
        match = _MODULE.fullmatch(name)
        if not match or "repository_url" not in self.config.html_theme_options:
            return ""
        path = match[1].replace(".", "/")
        found = [file for file in (f"{path}.py", path) if Path(self.env.srcdir, file).exists()]
        return "".join(found[:1])

    @cached_property
    def _kernels(self) -> list[str]:
        if "repository_url" not in self.config.html_theme_options:
            return []
        root = Path(self.env.srcdir)
        files = [file for file in sorted(root.glob("kernels/*/*.*")) if file.suffix != ".md"]
        return [file.relative_to(root).as_posix() for file in files]

    @cached_property
    def _repository(self) -> str:
        """Where the files are shown."""
        theme = self.config.html_theme_options
        return f"{theme['repository_url']}/blob/{theme.get('repository_branch', 'main')}"

    def _to(self, page: str, target: str, words: str, title: str | None = None) -> nodes.reference:
        builder = self.app.builder
        inner = nodes.inline("", words) if words else []
        return make_refnode(builder, self.env.docname, page, target, inner, title)

    @cached_property
    def _numbers(self) -> dict[int, str]:
        """Number of a chapter -> its page."""
        pages = {contents.number(Path(page)): page for page in self.env.found_docs}
        return {number: page for number, page in pages.items() if number is not None}

    @cached_property
    def _glossary(self) -> dict[str, tuple[str, str]]:
        """Term, in small letters -> where its entry is, and what it means."""
        if GLOSSARY not in self.env.found_docs:
            return {}
        found = {}
        for entry in self.env.get_doctree(GLOSSARY).findall(nodes.definition_list_item):
            meaning = " ".join(part.astext() for part in entry.findall(nodes.definition))
            for term in entry.findall(nodes.term):
                words = next(iter(term.findall(nodes.Text)), nodes.Text("")).astext().lower()
                if words and "," not in words and words not in PLAIN:
                    found[words] = (term["ids"][0], meaning)
        return found

    @cached_property
    def _any_term(self) -> re.Pattern[str]:
        longest_first = sorted(self._glossary, key=len, reverse=True)
        every = "|".join(map(re.escape, longest_first)) or r"(?!)"
        return re.compile(rf"(?<![\w-])(?:{every})s?(?![\w-])", re.IGNORECASE)


def _inside(node: nodes.Node, *kinds: type[nodes.Node]) -> bool:
    """Whether a node is in one of some kinds."""
    while node := node.parent:
        if isinstance(node, kinds):
            return True
    return False


def _caption_of_another(node: nodes.Node) -> bool:
    """Whether a text is in a caption that is not a picture's."""
    while node := node.parent:
        if isinstance(node, nodes.caption):
            return not isinstance(node.parent, nodes.figure)
    return False


def show_meaning(app: Sphinx, page: str, template: str, context: Any, doctree: Any) -> None:
    """Hand the definitions to the page, where a link of docutils would lose them."""
    body = context.get("body", "")
    if doctree is None or "term" not in body:
        return
    meanings = {
        link["refuri"]: link["data-meaning"]
        for link in doctree.findall(nodes.reference)
        if "data-meaning" in link
    }

    def with_meaning(link: re.Match[str]) -> str:
        meaning = meanings.get(link[3])
        return link[1] + (f'data-meaning="{escape(meaning)}" ' if meaning else "") + link[2]

    context["body"] = re.sub(
        r'(<a class="[^"]*\bterm\b[^"]*" )(href="([^"]*)")', with_meaning, body
    )


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_post_transform(Link)
    app.connect("html-page-context", show_meaning)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
