"""Replays: a run of a real kernel, recorded on the emulator when the book is built.

A box ``<div class="phasebit-replay" data-kernel="NAME">`` becomes one; the names are those of
:data:`SCENES`, or several of them, among which the reader chooses. What a reader gets without
scripts is what stands in the box, and under it the run
as a picture. The trace is a script of its own, which the page asks for when the reader does.

Traces are kept among the other builds, each by all that it depends on. Where there is no nvcc a box
keeps its words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cache
from html import escape
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer, PythonLexer
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

from phasebit import bugs, build_cache, files, toolchain
from phasebit.emulator import Finding, observing
from phasebit.launching.playback import Recorder
from phasebit.launching.slot_history import Places, Ring

from . import replay_trace
from .inline_svg import inline, svg_of
from .replay_bugs import scene as bug_scene
from .replay_scenes import SCENES, Scene, each

LOGGER = logging.getLogger(__name__)

FOLDER = "replays"

_BOX = re.compile(r'(<div[^>]*\bclass="phasebit-replay"[^>]*>)(.*?)</div>', re.S)
_KERNEL = re.compile(r'\bdata-kernel="([^"]*)"')


RINGS: dict[str, dict[str, Any]] = {
    "parity_of_the_loop": {
        "size": "one warp, four tiles, a barrier for each",
        "rings": (Ring("slot", tuple(each("full", 4))),),
    },
    "copies_left_in_flight": {
        "size": "one warp, four tiles, three slots of 512 bytes",
        "rings": (Places("slot", 0, 512, 3),),
    },
    "every_lane_arrives": {
        "size": "a warp that produces, a warp that consumes, one barrier", "barriers": ("full",),
    },
    "read_and_loaded_again": {
        "size": "one warp, four tiles, one slot", "rings": (Ring("slot", ("full",)),),
    },
    "elected_lane_arrives_early": {
        "size": "a warp that produces, a warp that consumes, one slot, four rounds",
        "rings": (Ring("slot", ("full",), ("empty",)),),
    },
    "lane_behind_the_copy": {
        "size": "a warp that produces, a warp that consumes, one slot, three tiles",
        "rings": (Ring("slot", ("full",), ("empty",)),),
    },
}  # fmt: skip
"""What a page says more of some bugs than can be seen in their programs."""


def scene(name: str) -> Scene:
    """A scene by its name, or a bug of the collection. Raises ``ValueError`` for another name."""
    if name in SCENES:
        return SCENES[name]
    if name in bugs.names():
        return bug_scene(name, **RINGS.get(name, {}))
    known = ", ".join([*SCENES, *bugs.names()])
    raise ValueError(f"no replay is called {name!r}: choose from {known}")


def record(scene: Scene) -> dict[str, Any]:
    """All runs of a scene. Raises :class:`toolchain.ToolMissing` without an nvcc.

    ``programs`` holds of each, for each block that is shown, its ``name``, the ``block``,
    ``barriers`` by name, ``runs`` by schedule; a schedule that changes nothing is left out. Only
    the first block has what all share: ``source`` by lines, and ``blocks`` of the program (lines,
    and how often each in a row). ``banks``: the patterns that the runs name by number.
    """
    programs = []
    patterns = replay_trace.Patterns()
    shown = scene.shown()
    for name, text in scene.programs().items():
        heard: list[tuple[str, Sequence[Recorder], Sequence[Finding]]] = []
        for schedule in scene.schedules:
            recorders = [Recorder(block, launch) for launch, block in shown.values()]
            with ExitStack() as listening:
                for recorder in recorders:
                    listening.enter_context(observing(recorder))
                found = scene.run(text, schedule)
            heard.append((schedule, recorders, found))
            if not any(each.works for each in recorders):  # nothing that a schedule decides
                break
        lines = text.splitlines()
        blocks, numbers = replay_trace.program(
            [each for _, recorders, _ in heard for each in recorders], scene.file, lines
        )
        for number, block in enumerate(shown):
            runs: dict[str, Any] = {}
            parts: replay_trace.Parts | None = None
            for schedule, recorders, found in heard:
                recorder = recorders[number]
                parts = parts or replay_trace.Parts.of(
                    scene, recorder.states, block, recorder.names
                )
                mine = [each for each in found if each.launch in (0, recorder.launch + 1)]
                run = replay_trace.packed(recorder, mine, parts, numbers, patterns, lines)
                if run not in runs.values():
                    runs[schedule] = run
            text_too = {} if number else {"source": coloured(text, scene.file), "blocks": blocks}
            programs.append({
                "name": name, "block": block, **text_too,
                "barriers": parts.barriers if parts else [], "runs": runs,
            })  # fmt: skip
    # Tuples become lists, as for who reads the kept text.
    whole: dict[str, Any] = json.loads(json.dumps(
        {"title": scene.title, "size": scene.size, "programs": programs, "banks": patterns.kept}
    ))  # fmt: skip
    return whole


_PLAIN = re.compile(r'<span class="(?:w|n|nn|nv|p|o)">(.*?)</span>', re.DOTALL)
"""What the house style gives the colour of all other text: half of a trace, if it is marked."""


def coloured(text: str, file: str) -> list[str]:
    """A kernel's text line by line, as HTML in the page's colours."""
    lexer = PythonLexer() if file.endswith(".py") else CudaLexer()
    html = highlight(text.rstrip(), lexer, HtmlFormatter(nowrap=True))
    return _PLAIN.sub(r"\1", html).splitlines()


@cache
def trace(name: str) -> dict[str, Any]:
    """:func:`record`, or what it made when all that it depends on was the same."""

    def make(path: Path) -> None:
        text = json.dumps(record(scene(name)), separators=(",", ":"))
        path.write_text(text, encoding="utf-8")

    kept: dict[str, Any] = json.loads(
        build_cache.keep(f"{FOLDER}/{key(name)}.json", make).read_text(encoding="utf-8")
    )
    return kept


def key(name: str) -> str:
    """A digest of all that a scene's trace depends on: its texts, what runs them, its chapter.

    What other chapters have of their own does not count: no chapter imports from another.
    """
    one = scene(name)
    digest = hashlib.sha256(json.dumps([name, _common(), dict(one.programs())]).encode())
    chapters = Path(files.__file__).parent / "chapters"
    for chapter in sorted(chapters_of(one)):
        _add(digest, chapters / chapter, "**/*.py")
    return digest.hexdigest()[:32]


def chapters_of(scene: Scene) -> set[str]:
    """The folders of ``phasebit/chapters`` from which a scene's functions import."""
    words: set[str] = set()
    met: list[Any] = []
    waiting: list[Any] = [scene.programs, scene.run]
    while waiting:
        one = waiting.pop()
        if isinstance(one, FunctionType) and one not in met:
            names = _names(one.__code__)
            waiting += [cell.cell_contents for cell in one.__closure__ or ()]
            waiting += [one.__globals__.get(name) for name in names]
            words |= names
            met.append(one)
    found = (re.match(r"phasebit\.chapters\.(\w+)", word) for word in words)
    return {each[1] for each in found if each}


def _names(code: CodeType) -> set[str]:
    """Names that code uses, with those of functions within it, and of modules that it imports."""
    inner = [_names(one) for one in code.co_consts if isinstance(one, CodeType)]
    return {*code.co_names}.union(*inner)


@cache
def _common() -> str:
    """A digest of what all scenes share: package, kernels, this extension, compiler's version."""
    digest = hashlib.sha256(str(toolchain.nvcc().version).encode())
    package = Path(files.__file__).parent
    _add(digest, package, "*.py")
    for folder in sorted(package.iterdir()):
        if folder.is_dir() and folder.name != "chapters":
            _add(digest, folder, "**/*.py")
    _add(digest, files.kernels(), "**/*.cu*")
    _add(digest, files.bugs() / "include", "**/*.cu*")
    _add(digest, Path(__file__).parent, "replay*.py")
    return digest.hexdigest()


def _add(digest: Any, folder: Path, what: str) -> None:
    for path in sorted(folder.glob(what)):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")


def add_replays(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give each box its picture, and the page the script. Refuses a kernel that there is not."""
    body = context.get("body", "")
    if "phasebit-replay" not in body:
        return
    ready = []

    def filled(box: re.Match[str]) -> str:
        names = found[1].split() if (found := _KERNEL.search(box[1])) else [""]
        for name in names:
            try:
                scene(name)
            except ValueError as error:
                raise ExtensionError(f"{page}: {error}") from None
        try:
            traces = {name: trace(name) for name in names}
        except toolchain.ToolMissing as error:
            LOGGER.info("%s is not replayed: %s", names[0], error)
            return box[0]
        ready.append(names)
        for name, data in traces.items():
            write(app, name, data)
        data = traces[names[0]]
        first = data["programs"][0]
        run = next(iter(first["runs"].values()))
        which = ", ".join(filter(None, (data["title"], first["name"], first["block"])))
        title = f"{which}: {data['size']}"
        drawn = replay_trace.picture(run, title, first["barriers"], data["banks"])
        svg = inline(svg_of(drawn), f"replay-{names[0]}")
        titles = escape(json.dumps([data["title"] for data in traces.values()]))
        ours = f'<div data-ready data-titles="{titles}"'
        words = f'<div class="pb-replay-words">{box[2]}</div>'
        return f"{box[1].replace('<div', ours, 1)}{words}{svg}</div>"

    context["body"] = _BOX.sub(filled, body)
    if ready:
        for script in ("replay_views.js", "replay.js"):
            app.add_js_file(script, loading_method="defer")


def write(app: Sphinx, name: str, data: dict[str, Any]) -> None:
    """The trace, as a script: a page that is opened as a file may ask for it too."""
    target = Path(app.outdir) / "_static" / FOLDER / f"{name}.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    target.write_text(f"phasebitReplay({json.dumps(name)},{text});\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_replays)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
