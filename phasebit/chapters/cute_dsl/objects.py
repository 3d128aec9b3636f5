"""The pipelines of a running product: their barriers, their counts and their slots, where they lie.

All is read from a run: who initialises which barrier with which count, which bytes are announced at
it, where copies land in shared memory and products in tensor memory.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from phasebit.chapters.cute_dsl import ptx_runs

if TYPE_CHECKING:
    from phasebit.draw import Arrow, Node, Picture

PIPELINES = {"": ("slices", "PipelineTmaUmma"), "sum ": ("sums", "PipelineUmmaAsync")}
"""What a ring is called in :func:`ptx_runs.barriers` -> its name in gemm.py, its class."""


@dataclass
class Barrier:
    """An mbarrier: where it lies in shared memory, what a phase of it waits for."""

    at: int = -1
    arrivals: int = 0
    bytes: int = 0


@dataclass
class Ring:
    """A pipeline: its barriers and its slots by their numbers."""

    barriers: dict[tuple[str, int], Barrier] = field(default_factory=lambda: defaultdict(Barrier))
    """``full`` or ``empty``, and the slot -> the barrier."""
    slots: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The slot -> where its parts lie."""


def seen(launch: Callable[[], Any]) -> dict[str, Ring]:
    """The rings of a launch of ``gemm.py``, by the keys of :data:`PIPELINES`."""
    from phasebit.emulator import BulkCopyObserver, MbarrierObserver, TensorObserver, observing

    names = ptx_runs.barriers()
    rings: dict[str, Ring] = {key: Ring() for key in PIPELINES}
    columns: list[str] = []

    def place(site: Any) -> tuple[Ring, str, int]:
        ring, side, slot = re.fullmatch(r"(.*?)(full|empty) (\d+)", names[site.name]).groups()  # type: ignore[union-attr]
        return rings[ring], side, int(slot)

    class Watcher(MbarrierObserver, BulkCopyObserver, TensorObserver):
        def initialises(self, g: Any, lanes: Any, site: Any) -> None:
            ring, side, slot = place(site)
            ring.barriers[side, slot] = Barrier(site.offset, site.barrier.expected)

        def operated(self, g: Any, site: Any) -> None:
            ring, side, slot = place(site)
            one = ring.barriers[side, slot]
            one.bytes = max(one.bytes, site.announced)

        def starts_copies(self, g: Any, copies: Any) -> None:
            for _, copy in copies:
                if copy.site is not None:
                    ring, _, slot = place(copy.site)
                    at = copy.target.start - (copy.site.position() - copy.site.offset)
                    if f"{at:,}" not in ring.slots[slot]:
                        ring.slots[slot].append(f"{at:,}")

        def multiplies(self, g: Any, target: Any, *rest: Any) -> None:
            text = re.sub(r"columns (\d+)-(\d+)", r"columns \1–\2", str(target)).split(", ")[-1]
            if text not in columns:
                columns.append(text)

    with observing(Watcher()):
        launch()
    rings["sum "].slots.update({i: [text] for i, text in enumerate(columns)})
    return rings


def picture(rings: Mapping[str, Ring], title: str) -> Picture:
    """Each pipeline above its slots: of each slot the barrier *full*, where it lies, *empty*."""
    from phasebit.draw import diagram

    nodes, arrows = _boxes(rings)
    return diagram(nodes, arrows, title=title, narrow=_boxes(rings, narrow=True))


def _boxes(rings: Mapping[str, Ring], narrow: bool = False) -> tuple[dict[str, Node], list[Arrow]]:
    """What :func:`picture` draws: what a phase waits for, in the first slot's boxes."""
    from phasebit.draw import Arrow, Node

    nodes: dict[str, Node] = {}
    arrows: list[Arrow] = []
    left, middle, right = (47.0, 165.0, 282.0) if narrow else (0.0, 250.0, 500.0)
    first, step, gap = (92.0, 62.0, 84.0) if narrow else (72.0, 50.0, 70.0)
    y = 0.0
    for key, ring in rings.items():
        name, kind = PIPELINES[key]
        top = f"{key}object"
        nodes[top] = Node(f"{kind} {name}", middle, y, "grey")
        for slot, parts in sorted(ring.slots.items()):
            y += step if slot else first
            full, empty = (ring.barriers[side, slot] for side in ("full", "empty"))
            words = f"A {parts[0]}, B {parts[1]}" if len(parts) > 1 else parts[0]
            said = [words, f"full at {full.at}", f"empty at {empty.at}"]
            whose = f"{name} {slot}"
            if narrow:
                said[0] = f"{whose}\n" + words.replace(", B", "\nB").replace("s ", "s\n")
                whose = ""
            here = [f"{key}{slot} {what}" for what in ("full", "slot", "empty")]
            if not slot:
                for at, barrier in enumerate((full, empty), 1):
                    count = _counts(barrier)
                    said[at] += ":\n" + (count.replace(", ", "\n") if narrow else count)
                arrows += [Arrow(top, here[0]), Arrow(top, here[2])]
            nodes |= {
                here[0]: Node(said[1], left, y, "blue", whose),
                here[1]: Node(said[0], middle, y, "green"),
                here[2]: Node(said[2], right, y, "orange"),
            }
            arrows += [Arrow(here[0], here[1]), Arrow(here[1], here[2])]
        y += gap
    return nodes, arrows


def _counts(barrier: Barrier) -> str:
    words = f"{barrier.arrivals} arrival{'s' * (barrier.arrivals > 1)}"
    return words + (f", {barrier.bytes:,} bytes" if barrier.bytes else "")
