"""The clinic of broken kernels: every mistake is found at its line, every twin is healthy.

Under each schedule of asynchronous work on the emulator; what compute-sanitizer said about the
same programs on an H200 is in the record.
"""

from __future__ import annotations

import functools
import statistics

import pytest

from phasebit import measure
from phasebit.chapters.warp_specialisation import clinic, reported, view
from phasebit.chapters.warp_specialisation import record as benchmark
from phasebit.instruments import sanitizer

REFUSED = "06_define_m"
"""Not for the emulator: the compiler refuses it."""

NAMES = clinic.names()
RUN = [name for name in NAMES if name != REFUSED]

schedules = pytest.mark.parametrize("schedule", clinic.SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")


@functools.cache
def record() -> dict[str, dict]:  # type: ignore[type-arg]
    return measure.read(benchmark.NAME)


class TestTexts:
    def test_there_are_patients(self) -> None:
        assert [int(name[:2]) for name in NAMES] == list(range(1, len(NAMES) + 1))
        assert len(RUN) - 3 >= 12, "besides the three unaided ones"

    @pytest.mark.parametrize("name", NAMES)
    def test_a_reader_sees_no_mark(self, name: str) -> None:
        for repaired in (False, True):
            text = clinic.source(name, repaired)
            lines = text.splitlines()
            assert "<-" not in text and "REPAIRED" not in text
            assert len(lines) <= 80 and max(map(len, lines)) <= 100
            assert lines[0].startswith("// ") and lines[-1] == '#include "harness.cuh"'
        assert clinic.source(name) != clinic.source(name, repaired=True)

    @pytest.mark.parametrize("name", NAMES)
    def test_kinds_are_known(self, name: str) -> None:
        marks = clinic.marks(name)
        assert marks
        assert {kind for kinds in marks.values() for kind in kinds} <= set(clinic.KINDS)

    @pytest.mark.parametrize("name", NAMES)
    def test_a_numbered_text_leaves_out_what_is_healthy_and_no_line_to_answer_with(
        self, name: str
    ) -> None:
        lines = clinic.source(name).splitlines()
        shown = [line for line in clinic.numbered(name).splitlines() if line]
        for line in shown:
            assert line[5:] == lines[int(line[:3]) - 1]
        numbers = {int(line[:3]) for line in shown}
        assert set(clinic.marks(name)) <= numbers
        assert len(lines) not in numbers, "the harness is every program's"

    def test_a_fix_is_what_differs(self) -> None:
        lines = clinic.fix("11_arrive_count").splitlines()
        assert [line[0] for line in lines] == ["-", "-", "+", "+"]
        assert "THREADS" in lines[0] and "PRODUCERS" in lines[2]

    def test_constants(self) -> None:
        known = clinic.constants(clinic.source("09_slots_and_bytes"))
        assert known["SLOTS"] == 3 and known["BYTES"] == 2 * 2 * 32 * 32 * 4
        assert clinic.constants("#define M 32\nconstexpr int A = 7, B = (A + 1) / 2;") == {
            "M": 32, "A": 7, "B": 4,
        }  # fmt: skip

    @pytest.mark.parametrize("text", ["__import__('os')", "2 ** 9", "f(1); g"])
    def test_an_expression_is_no_program(self, text: str) -> None:
        with pytest.raises((ValueError, TypeError, NameError)):
            clinic.constants(f"constexpr int A = {text};")

    def test_a_text_without_a_launch(self) -> None:
        with pytest.raises(ValueError, match="K and a launch"):
            clinic.launch_of("constexpr int M = 1, N = 1;")


@schedules
class TestEmulator:
    pytestmark = pytest.mark.nvcc

    @pytest.mark.parametrize("name", RUN)
    def test_found_at_its_line(self, name: str, schedule: tuple[str, int]) -> None:
        seen = clinic.examine(clinic.source(name), *schedule)
        marks = clinic.marks(name)
        found = {(each.kind, line) for each in seen.findings for line in each.lines}
        assert any(kind in marks.get(line, ()) for kind, line in found), seen

    @pytest.mark.parametrize("name", NAMES)
    def test_the_repaired_twin_is_healthy(self, name: str, schedule: tuple[str, int]) -> None:
        seen = clinic.examine(clinic.source(name, repaired=True), *schedule)
        assert seen.healthy, seen


REPORTED = [report.name for report in reported.REPORTS]
MISSED = ["r4_elected"]
"""Found by synccheck in the original: by the ISA, who has left does not count at barrier 0."""


@schedules
class TestReported:
    """The programs after threads: right on the emulator, found but for one, their twins healthy."""

    pytestmark = pytest.mark.nvcc

    @pytest.mark.parametrize("name", REPORTED)
    def test_found_at_its_line(self, name: str, schedule: tuple[str, int]) -> None:
        seen = clinic.examine(clinic.source(name), *schedule)
        marks = clinic.marks(name)
        found = {(each.kind, line) for each in seen.findings for line in each.lines}
        assert seen.verdict == "right"
        if name in MISSED:
            assert not found and not marks
        else:
            assert any(kind in marks.get(line, ()) for kind, line in found), seen

    @pytest.mark.parametrize("name", REPORTED)
    def test_the_repaired_twin_is_healthy(self, name: str, schedule: tuple[str, int]) -> None:
        seen = clinic.examine(clinic.source(name, repaired=True), *schedule)
        assert seen.healthy, seen


@pytest.mark.nvcc
def test_the_table_of_reports_has_what_is_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    healthy = clinic.examine(clinic.source("00_healthy"))
    monkeypatch.setattr(clinic, "examine", lambda text: healthy)
    tools = {"memcheck": {"verdict": "nothing"}, "synccheck": {"verdict": "hangs"}}
    said = {"runs": {"right": 4, "never ends": 1}, "tools": tools}
    quiet = {tool: {"verdict": "nothing"} for tool in tools}
    both = {"gpu": "a GPU", "date": "2026-11-22", "clinic": {"18_unaided broken": said}}
    assert len(reported.table(both).heading) == 3, "not all of them are recorded"
    both["reported"] = {f"{name} broken": said for name in REPORTED}
    both["reported"] |= {f"{name} repaired": {**said, "tools": quiet} for name in REPORTED}
    both["reported"][f"{REPORTED[0]} repaired"] = said
    shown = reported.table(both)
    assert shown.heading[-2:] == ("a GPU", "compute-sanitizer")
    ended = "right in 4 of 5, never ends in 1 of 5"
    assert {row[-2:] for row in shown.rows[1:]} == {(ended, "synccheck: hangs")}
    assert shown.rows[0][-2:] == (ended, "synccheck: hangs, repaired too")


def test_the_chart_of_the_ward_says_who_found_what() -> None:
    ward = clinic.Ward(record())
    ward.found = {"02_fragment_shape": "fault", "12_stale_parity": "", "06_define_m": "compile"}
    lines = [line.split("|") for line in str(ward.chart()).splitlines() if "|" in line]
    assert [patient.strip() for patient, _ in lines] == [
        "02 fragment shape", "12 stale parity", "06 define m",
    ]  # fmt: skip
    assert [cells.split() for _, cells in lines] == [
        ["wrong", "fault", "memcheck"],
        ["wrong", "–", "hangs"],
        ["refused", "compile", "·"],
    ]


class TestOthers:
    pytestmark = pytest.mark.nvcc

    def test_the_compiler_refuses_the_macro(self) -> None:
        seen = clinic.examine(clinic.source(REFUSED))
        (finding,) = seen.findings
        assert seen.verdict == "not compiled" and finding.kind == "compile"
        assert set(finding.lines) == set(clinic.marks(REFUSED))

    @pytest.mark.parametrize("case", clinic.VARIANTS, ids=" ".join)
    def test_variants(self, case: tuple[str, str]) -> None:
        seen = clinic.examine(clinic.variant(*case))
        assert seen.healthy == (case[1] == "syncwarp"), seen

    def test_the_healthy_kernel(self) -> None:
        assert clinic.examine(clinic.source("00_healthy")).healthy

    def test_a_wait_that_gives_up_disturbs_no_healthy_kernel(self) -> None:
        assert clinic.examine(_bounded("00_healthy")).healthy
        assert clinic.examine(_bounded("12_stale_parity")).kinds == "deadlock"

    def test_the_picture_of_the_roles(self) -> None:
        """A slot is refilled when its tile was read, before the tile of the other slot is."""
        spans = {(each.kind, int(each.label)): each for each in view.roles().spans}
        assert len(spans) == 2 * 8
        for tile in range(8):
            assert spans["produce", tile].end <= spans["consume", tile].start
            if tile >= 2:
                written = spans["produce", tile]
                assert spans["consume", tile - 2].end <= written.start
                assert written.end <= spans["consume", tile - 1].start

    def test_half_of_the_sum_is_no_finding(self) -> None:
        seen = clinic.examine(clinic.source("00_healthy").replace("k < BK;", "k < BK / 2;"))
        assert seen.verdict.startswith("wrong") and not seen.findings


def _bounded(name: str) -> str:
    """A patient's text with waits that give up."""
    text = clinic.source(name).replace("ring.cuh", "bounded_wait.cuh")
    waits = {"empty[at.slot], at.phase ^ 1": "empty", "full[at.slot], at.phase": "full"}
    for old, what in waits.items():
        assert f"wait({old})" in text
        text = text.replace(f"wait({old})", f'wait_or_stop({old}, "{what}", at.slot)')
    return text


class TestRecord:
    def test_everything_is_in_it(self) -> None:
        """And it is about these very programs: red after a change, until recorded again."""
        wanted = {name: benchmark.fingerprint(text) for name, text in benchmark.patients().items()}
        assert {name: said["text"] for name, said in record()["clinic"].items()} == wanted
        texts = {n: benchmark.fingerprint(text) for n, text in benchmark.reports().items()}
        assert {n: said["text"] for n, said in record()["reported"].items()} == texts
        assert set(record()["registers"]) == {*benchmark.VARIANTS, "ignored"}

    @pytest.mark.parametrize("name", NAMES)
    def test_the_repaired_twin_was_right_and_clean(self, name: str) -> None:
        said = record()["clinic"][f"{name} repaired"]
        assert set(said["runs"]) == {"right"}
        assert {tool["verdict"] for tool in said["tools"].values()} == {"nothing"}
        assert set(said["tools"]) == set(sanitizer.TOOLS)

    def test_what_the_chapter_says_about_luck(self) -> None:
        runs = {name: set(said["runs"]) for name, said in record()["clinic"].items()}
        assert all(len(runs[f"{name} broken"]) == 1 for name in NAMES[: clinic.PATIENTS])
        for name in ("05_last_prefetch", "10_no_drain", "15_early_release", "16_proxy_fence"):
            assert runs[f"{name} broken"] == {"right"}
        assert runs["15_early_release delayed"] == {"wrong"}
        tools = record()["clinic"]["18_unaided syncwarp"]["tools"]
        assert tools["racecheck"]["verdict"] == "found" and runs["18_unaided syncwarp"] == {"right"}

    def test_what_the_chapter_says_about_registers(self) -> None:
        rows = record()["registers"]
        assert len({row["registers"] for row in rows.values()}) == 1
        for name, row in rows.items():
            assert (row["spill_stores"] == 0) == (name == "setmaxnreg")
            assert bool(row["notes"]) == (name == "ignored")
            roles = row["roles"]
            assert 3 * roles["produce"]["highest"] < roles["consume"]["highest"]
            assert roles["produce"]["local"] == 0
        assert rows["setmaxnreg"]["roles"]["produce"]["highest"] < 24
        assert rows["setmaxnreg"]["roles"]["consume"]["highest"] > rows["inside"]["registers"]
        times = {name: statistics.median(rows[name]["warm_us"]) for name in benchmark.VARIANTS}
        assert 1.8 < times["inside"] / times["setmaxnreg"] < 2.2, "half of the time"

    def test_what_the_chapter_says_about_the_reported_programs(self) -> None:
        known = {**record()["clinic"], **record()["reported"]}
        runs = {name: set(known[f"{name} broken"]["runs"]) for name in REPORTED}
        assert [name for name in REPORTED if runs[name] == {"wrong"}] == [REPORTED[0], REPORTED[2]]
        assert all(ends in ({"right"}, {"wrong"}) for ends in runs.values())
        found = {
            twin: {
                name
                for name in REPORTED
                if known[f"{name} {twin}"]["tools"]["racecheck"]["verdict"] == "found"
            }
            for twin in ("broken", "repaired")
        }
        assert found["broken"] == {*REPORTED} - {*MISSED}
        assert found["repaired"] == {"r2_one_for_all"}
        quiet = {tool["verdict"] for tool in known[f"{MISSED[0]} broken"]["tools"].values()}
        assert quiet == {"nothing"}
