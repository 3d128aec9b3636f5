"""What the page shows of the collection: its kinds, what tools find, and two bugs in pictures."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np

from phasebit import bugs, files, measure, score
from phasebit.draw import Cell, Picture, chart
from phasebit.emulator import MbarrierObserver, observing
from phasebit.launching.launch import compile as compile_cuda
from phasebit.score.tools import bare_run
from phasebit.timeline import Mark, Span, Timeline

QUESTIONS = {
    "hand-over": "Have all who write it written, before anyone says that it is there?",
    "reuse": "Who may still read or fill the memory that I write?",
    "count": "What must come before this barrier's phase ends, and does exactly that come?",
    "phase": "Which phase do I ask about, and can it be another one by then?",
    "proxy": "Who writes and who reads: threads, or an engine?",
    "scope": "How far away is whoever must see it?",
    "between kernels": "What does the kernel before still do?",
    "allocation": "Whose columns are these, and since when?",
    "tensor memory": "Has every load of these columns come back?",
    "wgmma": "Whose are these registers now: the threads', or the tensor core's?",
    "descriptor": "Does the descriptor say what lies in the tile?",
    "exit": "Who still counts on this block's memory when it leaves?",
}
"""Kind -> what to ask of each line, in the order in which the page asks."""


def kinds() -> measure.Table:
    """The kinds of bugs, the rule that would have prevented each, and how many there are."""
    count = Counter(bug.kind for bug in bugs.every())
    rows = tuple((kind, rule, str(count[kind])) for kind, rule in bugs.KINDS.items())
    return measure.Table(("kind", "the rule", "bugs"), rows, "bugs/*/bug.toml")


SANITIZER = ("memcheck", "racecheck", "initcheck", "synccheck")


def ran(record: Mapping[str, Any]) -> str:
    """How many programs there are, and how many of them a GPU ran under compute-sanitizer."""
    every, here = bugs.every(), _asked_on_a_gpu(record)
    return (
        f"{len(every)} bugs; {len(here)} of them ran on a GPU under the four tools of "
        "compute-sanitizer, all of them on the emulator"
    )


def _asked_on_a_gpu(record: Mapping[str, Any]) -> set[str]:
    """The bugs that all four tools of compute-sanitizer ran."""
    return set.intersection(*(
        {of for of, row in record["tools"][tool]["bugs"].items() if row} for tool in SANITIZER
    ))  # fmt: skip


def named(record: Mapping[str, Any]) -> measure.Table:
    """Which bugs one of compute-sanitizer's tools names with the line, and which tool."""
    rows = tuple(
        (bug.kind, bug.title, ", ".join(tools))
        for bug in bugs.every()
        if (tools := [record["tools"][tool]["title"] for tool in SANITIZER
                      if _said(record, tool, bug.name) == score.FOUND])
    )  # fmt: skip
    sums = f"{len(rows)} of {len(_asked_on_a_gpu(record))}"
    return measure.Table(("kind", f"named by one of the four: {sums}", "by"), rows, "")


def results(record: Mapping[str, Any]) -> str:
    """What a test of results saw of the broken programs, each run a thousand times."""
    rows = {of: row for of, row in record["tools"]["bare_run"]["bugs"].items() if row}
    count = Counter(row["broken"] for row in rows.values())
    seldom = sum(bool(re.search(r"^wrong: \d{1,2} of 1000", row.get("note broken", "")))
                 for row in rows.values())  # fmt: skip
    return (
        f"of {len(rows)} broken programs a test of results, {bare_run.RUNS} runs of each, sees "
        f"nothing in {count[score.SILENT]}; of the others {seldom} are wrong in fewer than a "
        "hundred runs"
    )


def _said(record: Mapping[str, Any], tool: str, of: str) -> str:
    return str(record["tools"][tool]["bugs"].get(of, {}).get("broken", ""))


def questions() -> measure.Table:
    """The questions of the page, with the rule behind each."""
    rows = tuple((str(n), ask, bugs.KINDS[kind]) for n, (kind, ask) in enumerate(_asked(), 1))
    return measure.Table(("", "ask", "the rule"), rows, "")


def _asked() -> list[tuple[str, str]]:
    return list(QUESTIONS.items())


_HUES = {score.FOUND: "green", score.OTHER: "orange", score.SILENT: "grey"}


def found_by_kind(record: Mapping[str, Any]) -> Picture:
    """How many bugs of each kind each tool found, of those that it ran; from the record.

    Of the emulator's schedules *late* alone is shown: one run of each program.
    """
    tools = [one for name, one in record["tools"].items()
             if "bugs" in one and name not in ("phasebit_random", "phasebit_every")]  # fmt: skip
    cells = []
    shown = [kind for kind in bugs.KINDS if any(bug.kind == kind for bug in bugs.every())]
    for kind in shown:
        of = [bug for bug in bugs.every() if bug.kind == kind]
        line: list[Cell | None] = []
        for one in tools:
            said = [one["bugs"].get(bug.name, {}).get("broken") for bug in of]
            ran, found = sum(map(bool, said)), said.count(score.FOUND)
            other = said.count(score.OTHER)
            hue = _HUES[score.FOUND if found else score.OTHER if other else score.SILENT]
            more = f" +{other}" if other else ""  # a line of its own in a narrow drawing
            line.append(Cell(f"{found} of {ran}{more}", hue) if ran else None)
        cells.append(line)
    return chart(
        cells, rows=shown, columns=[_short(one["title"]) for one in tools],
        row_label="kind",
        column_label="tool: found, of those run; +1: of one more it reports something else",
        title="What tools find in the broken programs",
        legend={"green": "some found", "orange": "something else reported", "grey": "silent"},
    )  # fmt: skip


def _short(title: str) -> str:
    return {"a test of results": "results", "phasebit, late": "emulator"}.get(title, title)


def alarms(record: Mapping[str, Any]) -> measure.Table:
    """The repaired programs that a tool reports, from the record; with the day on which it did."""
    rows = tuple(
        (one["title"], bugs.bug(name).title, name, twins.get("date", one["date"]))
        for one in record["tools"].values()
        for name, twins in one.get("bugs", {}).items()
        if twins.get("fixed") == score.ALARM
    )
    return measure.Table(("tool", "repaired program", "folder", "measured"), rows, "")


def parities() -> Picture:
    """Which tiles of ``parity_of_the_loop`` come out right, by when the copies end.

    The broken and the repaired kernel run on the emulator, and each of four tiles is compared with
    twice its input.
    """
    folders = [files.bugs() / "include", files.kernels() / "include"]
    options = [word for folder in folders for word in ("-I", str(folder))]
    tiles, threads = 4, 32  # TILES, THREADS of the program
    x = np.arange(1, tiles * threads + 1, dtype=np.int32)
    lines: list[list[Cell | None]] = []
    names = []
    for twin in bugs.TWINS:
        path = bugs.bug("parity_of_the_loop").path(twin)
        kernel = compile_cuda(path, "sm_90a", options)["twice"]
        for schedule in ("eager", "late"):
            y = np.full_like(x, -1)
            kernel.launch(1, threads, [x, y], schedule=schedule, device="emulator",
                          raises=False, on_fault="report")  # fmt: skip
            pairs = zip(y.reshape(tiles, threads), x.reshape(tiles, threads), strict=True)
            lines.append([_tile(given, before) for given, before in pairs])
            names.append(f"{twin}, copies end {'early' if schedule == 'eager' else 'late'}")
    return chart(
        lines, rows=names, columns=[f"tile {i}" for i in range(tiles)], row_label="program",
        column_label="tile", title="The parity of the loop: which tiles are right",
    )  # fmt: skip


def _tile(given: np.ndarray[Any, Any], before: np.ndarray[Any, Any]) -> Cell:
    if (given == -1).all():
        return Cell("never written", "orange")
    return Cell("right", "green") if (given == 2 * before).all() else Cell("wrong", "red")


class _Phases(MbarrierObserver):
    """Notes the phase of a barrier after each arrival, and at the last look of who waits."""

    def __init__(self) -> None:
        self.after: list[int] = []
        self.looked = 0
        self._arrived = False  # before, the barrier is only initialised

    def arrives(self, g: Any, lanes: Any, site: Any, sem: str, scope: str) -> None:
        self._arrived = True

    def operated(self, g: Any, site: Any) -> None:
        if self._arrived:
            self.after.append(site.barrier.phase)

    def waits(self, g: Any, site: Any, blocked: bool) -> None:
        self.looked = len(self.after)

    def passes(self, g: Any, site: Any) -> None:
        self.looked = len(self.after)


def rounds(count: int = 1) -> Timeline:
    """The phases of ``full`` in ``every_lane_arrives``, arrival by arrival, as it is and repaired.

    A span is a phase, coloured by what the barrier answers meanwhile to who asks for parity 0. A
    mark stands where warp 1 looked last. ``count``: the arrivals that a phase of it expects.
    """
    folders = [files.bugs() / "include", files.kernels() / "include"]
    options = [word for folder in folders for word in ("-I", str(folder))]
    names = {"broken": "as it is", "fixed": "repaired"}
    seen = {}
    for twin in bugs.TWINS:
        text = bugs.bug("every_lane_arrives").text(twin)
        text = text.replace("mbarrier_init(&full, 1)", f"mbarrier_init(&full, {count})")
        kernel = compile_cuda(text, "sm_90a", options)["hand_over"]
        with observing(one := _Phases()):
            kernel.launch(1, 64, [np.zeros(32, np.int32)], device="emulator", raises=False,
                          on_fault="report")  # fmt: skip
        seen[twin] = one
    end = max(len(one.after) for one in seen.values()) + 3
    spans, marks = [], []
    for twin, one in seen.items():
        phases = [0, *one.after]
        starts = [k for k, phase in enumerate(phases) if k == 0 or phase != phases[k - 1]]
        for k, stop in zip(starts, [*starts[1:], end], strict=True):
            yes = phases[k] % 2 == 1
            spans.append(Span(names[twin], k, stop, "yes" if yes else "no", str(phases[k])))
        answer = "yes" if phases[one.looked] % 2 else "no"
        marks.append(Mark(names[twin], one.looked, f"warp 1 looks for the last time: {answer}"))
    return Timeline(
        list(names.values()), spans, marks, unit="arrival", title="The phases of full",
        legend={"yes": "is parity 0 complete? yes", "no": "is parity 0 complete? no"},
    )  # fmt: skip
