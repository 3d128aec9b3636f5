"""Replays: what is recorded is what the emulator counts, and what its own trace says."""

from __future__ import annotations

import doctest
import gzip
import json
import re
import sys
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from phasebit import bugs, files
from phasebit.emulator import EmulatorError, observing
from phasebit.launching import playback
from phasebit.launching.playback import BLOCK_BARRIER, Recorder
from phasebit.launching.slot_history import Places, slots_in

from .notebooks import ROOT

sys.path.insert(0, str(ROOT / "book" / "_ext"))

from phasebit_book import replay_trace, replays

nvcc = pytest.mark.nvcc

HEALTHY = ("", "as it is", "with one slot", "repaired")
"""Programs in which nothing is to be found."""


def test_a_kernel_that_there_is_not_is_refused() -> None:
    context = {"body": '<div class="phasebit-replay" data-kernel="cahin">words</div>'}
    with pytest.raises(Exception, match="page: no replay is called 'cahin': choose from "):
        replays.add_replays(SimpleNamespace(), "page", "", context, None)  # type: ignore[arg-type]


def test_every_scene_stands_on_a_page_and_on_no_page_twice() -> None:
    shown = []
    for path in sorted((ROOT / "book").glob("*/*")):
        if path.suffix in (".ipynb", ".md"):
            text = path.read_text(encoding="utf-8").replace('\\"', '"')
            boxes = re.findall(r'class="phasebit-replay" data-kernel="([^"]+)"', text)
            names = [name for box in boxes for name in box.split()]
            assert len(set(names)) == len(names)
            shown += names
    assert set(shown) - {*bugs.names()} == set(replays.SCENES)
    assert set(replays.RINGS) <= set(shown)


def test_names_for_more_barriers_than_there_are_are_refused() -> None:
    with pytest.raises(ValueError, match="A chain of rings: 1 barriers, and names for 12"):
        replay_trace.Parts.of(replays.SCENES["chain"], {0: []})


def test_a_page_without_a_replay_stays_as_it_is() -> None:
    context = {"body": "<p>words</p>"}
    replays.add_replays(SimpleNamespace(), "page", "", context, None)  # type: ignore[arg-type]
    assert context == {"body": "<p>words</p>"}


@nvcc
def test_a_trace_depends_on_its_own_chapter_and_on_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scenes = replays.SCENES
    assert replays.chapters_of(scenes["chain"]) == {"chain"}
    assert replays.chapters_of(scenes["12_stale_parity"]) == {"warp_specialisation"}
    assert replays.chapters_of(scenes["bulk_copy"]) == set()
    before = {name: replays.key(name) for name in ("chain", "b_ring", "bulk_copy")}
    assert len({*before.values()}) == 3
    real = replays._add

    def edited(digest: Any, folder: Any, what: str) -> None:
        real(digest, folder, what)
        if folder.parent.name == "chapters" and folder.name == "chain":
            digest.update(b"# an edit")

    monkeypatch.setattr(replays, "_add", edited)
    after = {name: replays.key(name) for name in before}
    assert [name for name in before if before[name] != after[name]] == ["chain"]
    monkeypatch.setattr(replays, "_common", lambda: "an edit of the emulator")
    assert all(replays.key(name) != before[name] for name in before)


@pytest.fixture(scope="module")
def recorded() -> tuple[Recorder, Any]:
    """The ring of two slots for 128 numbers along k: what was recorded, and the run."""
    from phasebit.chapters.double_buffering import observed

    text = files.kernel("double_buffering/barrier_double_buffer")
    recorder = Recorder()
    with observing(recorder):
        run, right = observed.emulate(text, 128)
    assert right
    return recorder, run


@nvcc
def test_each_instruction_of_each_thread_is_recorded(recorded: tuple[Recorder, Any]) -> None:
    recorder, run = recorded
    sizes = recorder.batch.machine.program.sizes
    executed = sum(sizes[pc] * len(lanes) for _, pc, lanes in recorder.steps)
    assert executed == run.counters["smsp__thread_inst_executed.sum"]


@nvcc
def test_waits_are_those_of_the_emulators_own_trace(recorded: tuple[Recorder, Any]) -> None:
    """Nothing is asynchronous here, so that both clocks are one."""
    recorder, run = recorded
    mine = {(wait.warps, wait.start, wait.end) for wait in recorder.waits_
            if wait.barrier != BLOCK_BARRIER}  # fmt: skip
    its = {(e.warps, e.start, e.end) for e in run.trace.events
           if e.kind == "wait" and "mbarrier" in e.label}  # fmt: skip
    assert mine == its
    assert len(mine) >= 3
    assert recorder.end == run.cycles


@nvcc
def test_every_arrival_is_in_the_states_of_a_barrier(recorded: tuple[Recorder, Any]) -> None:
    recorder, run = recorded
    arrived = 0
    for states in recorder.states.values():
        for before, after in pairwise(states):
            arrived += before.pending - after.pending
            if after.phase != before.phase:
                assert after.phase == before.phase + 1
                arrived += after.expected
    assert arrived == run.counters["mbarrier.arrivals"]


@nvcc
def test_banks_are_those_that_the_emulator_counts(recorded: tuple[Recorder, Any]) -> None:
    recorder, run = recorded
    for op in ("ld", "st"):
        mine = [each for each in recorder.touches if each.load == (op == "ld")]
        counted = f"wavefronts_mem_shared_op_{op}.sum"
        assert sum(t.wavefronts for t in mine) == run.counters[f"l1tex__data_pipe_lsu_{counted}"]
        lost = run.counters[f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum"]
        assert sum(each.lost for each in mine) == lost
    at = {each.warp: each.at for each in recorder.touches}
    assert all(recorder.left[32 * warp] >= moment for warp, moment in at.items())


@nvcc
def test_a_slot_that_only_copies_fill_is_full_when_they_are_done() -> None:
    """The ring of groups, late: a copy ends when its thread waits, and nobody reads before."""
    from phasebit.chapters.asynchronous_copies import exercises

    source = files.kernel("asynchronous_copies/groups")
    ring = Places("slot", 0, 2080, 4)
    early = {}
    unwaited = source.replace("__pipeline_wait_prior(STAGES - 1);", "")
    for name, text in (("right", source), ("wrong", unwaited)):
        recorder = Recorder()
        with observing(recorder):
            exercises.run(text, 128, schedule="late")
        history = slots_in(recorder, ring)
        assert history[2][0][1] == "filling"
        early[name] = [what for slot in history for _, what, _ in slot].count("early")
    assert early["right"] == 0
    assert early["wrong"] > 2


@nvcc
def test_who_arrives_at_a_named_barrier_and_goes_on_does_not_wait() -> None:
    from phasebit.launching import launch

    text = """
    __global__ void turns(int* out) {
        if (threadIdx.x < 32) asm volatile("bar.arrive 2, 64;" ::: "memory");
        else asm volatile("bar.sync 2, 64;" ::: "memory");
        out[threadIdx.x] = 1;
    }"""
    recorder = Recorder()
    with observing(recorder):
        launch.compile(text, "sm_90a")["turns"].launch(1, 64, [np.zeros(64, np.int32)])
    assert {wait.warps for wait in recorder.waits_} <= {(1,)}
    assert all(wait.barrier == BLOCK_BARRIER - 2 for wait in recorder.waits_)
    assert recorder.open_waits() == []
    assert set(recorder.left) == set(range(64))


@nvcc
def test_under_late_a_copy_is_under_way_until_somebody_waits_for_it() -> None:
    from phasebit.chapters.hopper_ring import exercises

    text = files.kernel("hopper_ring/b_ring")
    length = {}
    for schedule in ("eager", "late"):
        recorder = Recorder()
        with observing(recorder):
            _, right = exercises.emulate(text, (128, 256, 384), schedule=schedule)
        assert right
        copies = [work for work in recorder.works if work.engine == "copy engine"]
        products = [work for work in recorder.works if work.engine == "tensor core"]
        assert len(copies) == 2 * 6
        assert sum(work.bytes for work in copies) == 6 * 49152
        assert len(products) == 4 * 6 * (1 if len(products[0].warps) == 8 else 2)
        length[schedule] = sum((work.end or 0) - work.start for work in copies)
        for place, states in recorder.states.items():  # nobody passes before the phase is over
            ends = [b.at for a, b in pairwise(states) if b.phase != a.phase]
            passed = sorted({at for at, where, _ in recorder.passed if where == place})
            empty = place >= max(recorder.states) - 24
            for number, at in enumerate(passed if not empty else []):
                assert ends[min(number, len(ends) - 1)] <= at or number >= len(ends)
    assert length["eager"] == 0
    assert length["late"] > 100


@nvcc
@pytest.mark.parametrize("name", [*replays.SCENES, *replays.RINGS])
def test_a_trace_is_small_and_says_what_was_found(name: str) -> None:
    scene = replays.scene(name)
    trace = replays.trace(name)
    text = json.dumps(trace, separators=(",", ":"), ensure_ascii=False).encode()
    assert len(gzip.compress(text)) < 150_000
    assert len(text) < 150_000, "a server that does not compress is fast, too"
    whole = {program["name"]: program for program in reversed(trace["programs"])}
    for program in trace["programs"]:
        source, blocks = (whole[program["name"]][what] for what in ("source", "blocks"))
        assert program["runs"]
        for run in program["runs"].values():
            assert bool(run["findings"]) == (program["name"] not in HEALTHY)
            for finding in run["findings"]:
                assert 0 <= finding["at"] <= run["end"]
                assert finding["lines"]
                assert all(0 < line <= len(source) for line in finding["lines"])
            assert not scene.roles or all(
                each["role"] for each in run["rows"] if not each["left"] or len(each["waits"]) > 1
            )
            for row in run["rows"]:
                assert all(0 <= number < len(trace["banks"]) for number in row["touches"][1::2])
                assert sum(row["touches"][::2]) <= run["end"]
                stop = run["end"] if row["left"] < 0 else row["left"]
                waits = ([a, run["end"] if b < 0 else b] for a, b, _ in row["waits"])
                spans = sorted([*row["ran"], *waits])
                assert all(a < b <= stop for a, b in spans)
                assert all(b <= c for (_, b), (c, _) in pairwise(spans)), "it does one thing"
            assert all(0 <= pc < len(blocks) for row in run["rows"] for pc in row["steps"][1::2])
            for slot in run["slots"]:
                moments = [at for at, _, _ in slot["history"]]
                assert moments == sorted(moments)
            drawn = replay_trace.picture(run, "a run", program["barriers"], trace["banks"])
            assert drawn.end <= run["end"] + 1
            assert all(span.waits_for for span in drawn.spans if span.kind == "wait")
            assert run["end"] == 0 or len(drawn.rows) > 1 or len(drawn.styles) > 1
    if name == "chain":
        assert set(trace["programs"][0]["runs"]) == {"late", "eager", "random"}


def test_the_example_holds() -> None:
    assert doctest.testmod(playback) == (0, 1)


def test_many_waits_cost_no_more_than_their_number() -> None:
    """Thousands of each, as of a warp that asks again and again."""
    begins = range(0, 20_000, 10)
    spans, waits = [(n, n + 8) for n in begins], [(n + 2, n + 5) for n in begins]
    pieces = [each for n in begins for each in ((n, n + 2), (n + 5, n + 8))]
    assert playback._without(spans, waits, 20_000) == pieces


def between(spans: list[list[int]], end: int) -> list[tuple[int, int]]:
    """What lies between spans that are in order, and after them until an end."""
    edges = [0, *(moment for span in spans for moment in span), end]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


@nvcc
def test_a_warp_is_drawn_as_executing_only_where_the_emulator_ran_it() -> None:
    """Warp 1 of the queue, eager: while thread 0 issues alone, and it waits for nobody yet."""
    trace = replays.trace("queue")
    program = trace["programs"][0]
    run = program["runs"]["eager"]
    row = next(each for each in run["rows"] if each["name"] == "warp 1")
    length = [sum(block[1::2]) for block in program["blocks"]]
    moments: set[int] = set()
    at = 0
    for step, block in zip(row["steps"][::2], row["steps"][1::2], strict=True):
        at += step
        moments |= {*range(at, at + length[block])}
    assert moments == {moment for span in row["ran"] for moment in range(*span)}
    idle = between(row["ran"], row["left"])
    assert idle and not row["waits"]
    other = next(each for each in run["rows"] if each["name"] == "warp 0")
    assert all(any(a <= start and end <= b for a, b in other["ran"]) for start, end in idle)
    drawn = replay_trace.picture(run, "a run", program["barriers"], trace["banks"])
    seen = [span for span in drawn.spans if span.row == "warp 1"]
    assert not any(span.start < end and start < span.end for start, end in idle for span in seen)


@nvcc
def test_a_warp_whose_threads_part_waits_where_the_one_waits_that_is_shown() -> None:
    """Warp 0 of the queue, late: thread 0 issues, and the other 31 wait for what it commits."""
    run = replays.trace("queue")["programs"][0]["runs"]["late"]
    rows = {row["name"]: row for row in run["rows"]}
    (products,) = (each["spans"] for each in run["engines"] if each["name"] == "tensor core")
    (start, _, barrier) = rows["warp 1"]["waits"][-1]
    assert barrier == 1 and start < products[0][0], "before anything is under way"
    ran = rows["warp 0"]["ran"]
    assert any(a <= products[0][0] - 1 and products[1][0] <= b for a, b in ran)
    assert not any(begins < products[1][0] for begins, _, _ in rows["warp 0"]["waits"])


@nvcc
def test_a_machine_without_memory_says_nothing_of_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its refusal would be kept as what the kernel does."""
    from phasebit.emulator.machine import room

    monkeypatch.setattr(room, "available", lambda: 1)
    with pytest.raises(EmulatorError, match="not enough memory"):
        replays.record(replays.SCENES["queue"])


@nvcc
def test_a_finding_in_an_assembler_statement_is_told_by_its_first_line() -> None:
    """Patient 16: the page says the same line, whichever the compiler gave."""
    (broken, _) = replays.trace("16_proxy_fence")["programs"]
    (run,) = broken["runs"].values()
    assert [finding["lines"] for finding in run["findings"]] == [[14, 37]]
    walked = {line for block in broken["blocks"] for line in block[::2]}
    assert 14 in walked and not walked & {15, 16, 17}, "and whoever executes it stands there"


@nvcc
def test_what_stands_still_is_said() -> None:
    """Patient 12: both roles wait, each for the other."""
    (broken, repaired) = replays.trace("12_stale_parity")["programs"]
    (run,) = broken["runs"].values()
    forever = {(row["name"], barrier) for row in run["rows"] for _, to, barrier in row["waits"]
               if to == -1}  # fmt: skip
    assert forever == {("warp 0", 2), ("warps 1–3", 2), ("warps 4–7", 0)}
    (finding,) = run["findings"]
    assert finding["text"] == (
        "A deadlock: warps 0–3 wait for phase 1 of empty[0], warps 4–7 wait for phase 2 of "
        "full[0], and nobody is left who could end it."
    )
    whole = next(iter(repaired["runs"].values()))
    assert all(row["left"] > 0 for row in whole["rows"])


@nvcc
def test_both_blocks_of_a_pair_are_told_by_one_clock() -> None:
    """The first block's thread multiplies for both, and both fill slots of their own."""
    first, second = replays.trace("pair")["programs"]
    assert (first["block"], second["block"]) == ("block 0", "block 1")
    assert "source" in first and "source" not in second
    one, other = (program["runs"]["late"] for program in (first, second))
    assert [slot["history"] for slot in one["slots"]] == [
        slot["history"] for slot in other["slots"]
    ]
    copies = [{engine["name"]: engine["spans"] for engine in run["engines"]}["copy engine"]
              for run in (one, other)]  # fmt: skip
    ends = [{what.removesuffix(" of block 0"): at for _, at, what in spans} for spans in copies]
    assert ends[0] == ends[1], "halves are counted at one barrier, and waited for together"
    assert all(what.endswith("of block 0") for _, _, what in copies[1])
    assert "tensor core" not in {engine["name"] for engine in other["engines"]}
    full = range(6)
    assert all(len(one["barriers"][n]) > 1 == len(other["barriers"][n]) for n in full)
    met = [{to for row in run["rows"] for _, to, barrier in row["waits"] if barrier == -100}
           for run in (one, other)]  # fmt: skip
    assert met[0] == met[1] != set()


@nvcc
def test_what_is_found_in_a_pair_says_in_which_block() -> None:
    programs = replays.trace("small_pair")["programs"]
    (run,) = next(p for p in programs if p["name"] == "full counts both producers")["runs"].values()
    (finding,) = run["findings"]
    assert "warps 0–1 of block 1 wait for phase 0 of full[0] of block 1" in finding["text"]
    for name in {program["name"] for program in programs}:
        one, other = (
            [finding["at"] for finding in next(iter(p["runs"].values()))["findings"]]
            for p in programs if p["name"] == name
        )  # fmt: skip
        assert one == other or name == "empty counts one block's warps", "which ends by a fault"


@nvcc
@pytest.mark.parametrize(("name", "places", "barriers"), [
    ("wait_of_block_scope", ["block 0", "block 1"], ["full"]),
    ("waits_compiled_away", ["consume, block 0", "produce, block 0", "pass_by, block 0"], []),
    ("rescale_without_wait_ld", [""], ["empty", "done"]),
])  # fmt: skip
def test_any_bug_is_replayed_by_its_name(name: str, places: list[str], barriers: list[str]) -> None:
    """Where its findings are, with the barriers as the program calls them; repaired beside it."""
    trace = replays.trace(name)
    assert trace["title"] == bugs.bug(name).title
    shown = [(program["name"], program["block"]) for program in trace["programs"]]
    assert shown == [(which, place) for which in ("with the mistake", "repaired")
                     for place in places]  # fmt: skip
    found = {which: [finding for program in trace["programs"] if program["name"] == which
                     for run in program["runs"].values() for finding in run["findings"]]
             for which, _ in shown}  # fmt: skip
    assert found["with the mistake"] and not found["repaired"]
    assert trace["programs"][0]["barriers"] == barriers
