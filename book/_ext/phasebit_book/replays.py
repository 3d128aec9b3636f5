"""Replays: a run of a real kernel, recorded on the emulator when the book is built.

A box ``<div class="phasebit-replay" data-kernel="NAME">`` becomes one; the names are those of
:data:`SCENES`. What a reader gets without scripts is what stands in the box, and under it the run
as a picture. The trace is a script of its own, which the page asks for when the reader does.

Traces are kept among the other builds, by all that they depend on. Where there is no nvcc a box
keeps its words.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from docutils import nodes
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import CudaLexer
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util import logging

from phasebit import build_cache, files, toolchain
from phasebit.emulator import Finding, observing
from phasebit.launching.playback import Recorder, Ring

from . import replay_trace
from .inline_svg import inline

LOGGER = logging.getLogger(__name__)

SCHEDULES = ("late", "eager", "random")
FOLDER = "replays"

_BOX = re.compile(r'(<div[^>]*\bclass="phasebit-replay"[^>]*>)(.*?)</div>', re.S)
_KERNEL = re.compile(r'\bdata-kernel="([^"]*)"')


@dataclass(frozen=True)
class Scene:
    """A kernel that is replayed.

    ``programs``: what each text is called -> the text, ``file`` where it stands as the compiler
    knows it.  ``run(text, schedule)`` runs it on the emulator and returns what was found.
    ``size`` says what is multiplied.
    """

    title: str
    size: str
    file: str
    rings: Sequence[Ring]
    programs: Callable[[], dict[str, str]]
    run: Callable[[str, str], Sequence[Finding]]


def _ring(slots: int, name: str = "slot", prefix: str = "") -> Ring:
    numbers = range(slots)
    return Ring(name, [f"{prefix}full[{n}]" for n in numbers],
                [f"{prefix}empty[{n}]" for n in numbers])  # fmt: skip


def _kernel(name: str) -> Callable[[], dict[str, str]]:
    return lambda: {"": (files.kernels() / f"{name}.cu").read_text(encoding="utf-8")}


def _double_buffer(text: str, schedule: str) -> Sequence[Finding]:
    from phasebit.chapters.double_buffering import observed

    return observed.emulate(text, 256, schedule)[0].findings


def _copy_ring(text: str, schedule: str) -> Sequence[Finding]:
    from phasebit.chapters.hopper_ring import exercises

    return exercises.emulate(text, (128, 256, 512), schedule=schedule)[0].findings


def _chain(text: str, schedule: str) -> Sequence[Finding]:
    from phasebit.chapters.chain import kernels

    return kernels.multiply(text, 384, 256, 192, schedule=schedule).run.findings


def _examined(text: str, schedule: str) -> Sequence[Finding]:
    from phasebit.chapters.warp_specialisation import clinic

    return clinic.examine(text, schedule).findings


def _patient(name: str) -> Callable[[], dict[str, str]]:
    def texts() -> dict[str, str]:
        from phasebit.chapters.warp_specialisation import clinic

        return {
            "with the mistake": clinic.source(name),
            "repaired": clinic.source(name, repaired=True),
        }

    return texts


SCENES = {
    "barrier_double_buffer": Scene(
        "Two slots, two roles", "C is 32 × 32 and K is 256: eight tiles",
        "source.cu", [_ring(2)], _kernel("double_buffering/barrier_double_buffer"), _double_buffer,
    ),
    "b_ring": Scene(
        "The copy engine's ring", "one tile of C, 128 × 256, and K is 512: eight steps",
        "source.cu", [_ring(4)], _kernel("hopper_ring/b_ring"), _copy_ring,
    ),
    "chain": Scene(
        "A chain of rings", "C is 384 × 256 and k is 192: three tiles of three slices, one block",
        "source.cu", [_ring(4), _ring(2, "sum", "sum_")], _kernel("chain/chain"), _chain,
    ),
    **{
        name: Scene(title, "C is 32 × 32 and K is 256: eight tiles",
                    "patient.cu", [_ring(2)], _patient(name), _examined)
        for name, title in (
            ("01_one_warp_loads", "One function loads for four warps"),
            ("12_stale_parity", "A parity that never flips"),
            ("13_sync_in_role", "A block's barrier inside a role"),
        )
    },
}  # fmt: skip
"""What may be replayed."""


def record(scene: Scene) -> dict[str, Any]:
    """All runs of a scene. Raises :class:`toolchain.ToolMissing` without an nvcc.

    ``programs`` holds of each its ``name``, ``source`` by lines, ``blocks`` (lines, and how often
    each in a row), ``runs`` by schedule; a schedule that changes nothing is left out.
    """
    programs = []
    for name, text in scene.programs().items():
        heard: list[tuple[str, Recorder, Sequence[Finding]]] = []
        for schedule in SCHEDULES:
            recorder = Recorder()
            with observing(recorder):
                found = scene.run(text, schedule)
            heard.append((schedule, recorder, found))
        blocks, numbers = replay_trace.program([each for _, each, _ in heard], scene.file)
        runs: dict[str, Any] = {}
        for schedule, recorder, found in heard:
            run = replay_trace.packed(recorder, found, scene.rings, numbers)
            if run not in runs.values():
                runs[schedule] = run
        source = coloured(text)
        programs.append({"name": name, "source": source, "blocks": blocks, "runs": runs})
    barriers = [name for ring in scene.rings for name in (*ring.full, *ring.empty)]
    # Tuples become lists, as for who reads the kept text.
    whole: dict[str, Any] = json.loads(json.dumps(
        {"title": scene.title, "size": scene.size, "barriers": barriers, "programs": programs}
    ))  # fmt: skip
    return whole


def coloured(text: str) -> list[str]:
    """A kernel's text line by line, as HTML in the page's colours."""
    return highlight(text.rstrip(), CudaLexer(), HtmlFormatter(nowrap=True)).splitlines()


@cache
def trace(name: str) -> dict[str, Any]:
    """:func:`record`, or what it made when all that it depends on was the same."""
    key = hashlib.sha256(json.dumps([name, _depends()]).encode()).hexdigest()[:32]

    def make(path: Path) -> None:
        text = json.dumps(record(SCENES[name]), separators=(",", ":"))
        path.write_text(text, encoding="utf-8")

    kept: dict[str, Any] = json.loads(
        build_cache.keep(f"{FOLDER}/{key}.json", make).read_text(encoding="utf-8")
    )
    return kept


@cache
def _depends() -> str:
    """A digest of the package, the kernels, this extension and the compiler's version."""
    digest = hashlib.sha256(str(toolchain.nvcc().version).encode())
    package = Path(files.__file__).parent
    for folder, what in ((package, "**/*.py"), (files.kernels(), "**/*.cu*"),
                         (Path(__file__).parent, "replay*.py")):  # fmt: skip
        for path in sorted(folder.glob(what)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def add_replays(
    app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: nodes.document | None
) -> None:
    """Give each box its picture, and the page the script. Refuses a kernel that there is not."""
    body = context.get("body", "")
    if "phasebit-replay" not in body:
        return
    ready = []

    def filled(box: re.Match[str]) -> str:
        name = found[1] if (found := _KERNEL.search(box[1])) else ""
        if name not in SCENES:
            raise ExtensionError(
                f"{page}: no replay is called {name!r}: choose from {', '.join(SCENES)}"
            )
        try:
            data = trace(name)
        except toolchain.ToolMissing as error:
            LOGGER.info("%s is not replayed: %s", name, error)
            return box[0]
        ready.append(name)
        write(app, name, data)
        first = data["programs"][0]
        run = next(iter(first["runs"].values()))
        title = f"{data['title']}{', ' * bool(first['name'])}{first['name']}: {data['size']}"
        svg = inline(replay_trace.picture(run, title).svg(), f"replay-{name}")
        return f"{box[1].replace('<div', '<div data-ready', 1)}{box[2]}{svg}</div>"

    context["body"] = _BOX.sub(filled, body)
    if ready:
        app.add_js_file("replay.js", loading_method="defer")


def write(app: Sphinx, name: str, data: dict[str, Any]) -> None:
    """The trace, as a script: a page that is opened as a file may ask for it too."""
    target = Path(app.outdir) / "_static" / FOLDER / f"{name}.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, separators=(",", ":"), ensure_ascii=False)
    target.write_text(f"phasebitReplay({json.dumps(name)},{text});\n", encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_replays)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
