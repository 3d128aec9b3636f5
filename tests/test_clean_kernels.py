"""The book's kernels were clean under compute-sanitizer, each as it is now."""

from __future__ import annotations

import pytest

from phasebit import clean_kernels, files, hardware, measure, replay
from phasebit.chapters.threads_and_memory import record
from phasebit.instruments import sanitizer

ARRIVE_TWICE = ("asynchronous_copies/pipeline", "asynchronous_copies/mbarrier")
TWICE = ["Barrier error detected. Missing wait."]
"""What synccheck says where copies arrive beside their thread: see that chapter's ``clean``."""
ONE_ARRIVES = "eight_bits/f_scales_in_slot"
AFTER_OTHERS = ["Error: Potential WAR hazard detected"]
"""What racecheck says where one lane arrives for all: of the twin whose lanes all do, nothing."""


class TestKeeping:
    """What was said of a program that has not changed need not be asked again."""

    def test_only_what_is_the_same(self, monkeypatch: pytest.MonkeyPatch) -> None:
        today = {"gpu": "G", "date": "today", "protocol": {"tools": "four"}}
        before = {
            **today, "date": "yesterday",
            "programs": {
                "same": {"text": replay.key("int a;"), "tools": {"memcheck": {}}},
                "changed": {"text": replay.key("int b;"), "tools": {}},
                "gone": {"text": replay.key("int c;"), "tools": {}},
                "dated": {"text": replay.key("int d;"), "date": "long ago", "tools": {}},
            },
        }  # fmt: skip
        monkeypatch.setattr(measure, "read", lambda name: before)
        every = {"same": "int a;", "changed": "int b = 1;", "new": "int e;", "dated": "int d;"}
        texts = {name: replay.key(text) for name, text in every.items()}
        kept = sanitizer.kept("any", "programs", texts, today)
        assert {name: said["date"] for name, said in kept.items()} == {
            "same": "yesterday", "dated": "long ago",
        }  # fmt: skip
        assert kept["same"]["tools"] == {"memcheck": {}}
        assert sanitizer.kept("any", "another part", texts, today) == {}
        for other in ({"gpu": "another"}, {"protocol": {"tools": "five"}}):
            assert sanitizer.kept("any", "programs", texts, {**today, **other}) == {}


def test_what_needs_more_gpus_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    new = {"alone": sanitizer.Program(""), "pair": sanitizer.Program("", gpus=2)}
    for gpus, fit in (1, ["alone"]), (2, ["alone", "pair"]):
        monkeypatch.setattr(hardware, "gpus", lambda found=gpus: found)
        assert list(clean_kernels._that_fit(new)) == fit
        assert ("pair needs 2 GPUs" in capsys.readouterr().out) is (gpus == 1)


class TestRecord:
    def test_it_is_about_these_very_programs(self) -> None:
        """Red after a change of a kernel, until recorded again."""
        known = measure.read(clean_kernels.NAME)["programs"]
        assert {name: said["text"] for name, said in known.items()} == {
            name: replay.key(program.text) for name, program in clean_kernels.every().items()
        }

    @pytest.mark.parametrize(
        "chapter", ["threads_and_memory", "asynchronous_copies", "hopper_ring", "two_gpus"]
    )
    def test_every_program_of_these_chapters_is_in_it(self, chapter: str) -> None:
        mine = {name for name in files.kernel_names(".cu") if name.startswith(f"{chapter}/")}
        if chapter == "threads_and_memory":
            together = {f"{chapter}/{name}" for name in record.PROGRAMS}
            mine = mine - together | {f"{chapter}/counted"}
        mine.discard("two_gpus/f_link")  # it measures, and has no result
        mine.discard("threads_and_memory/halves")  # it measures, in one way without the barrier
        said = {name for name in clean_kernels.every() if name.startswith(f"{chapter}/")}
        assert {name for name in said if "," not in name} == mine

    @pytest.mark.parametrize("name", sorted(clean_kernels.every()))
    def test_clean(self, name: str) -> None:
        tools = measure.read(clean_kernels.NAME)["programs"][name]["tools"]
        assert set(tools) == set(sanitizer.TOOLS)
        for tool, said in tools.items():
            wanted: tuple[str, list[str]] = ("nothing", [])
            if tool == "synccheck" and name in ARRIVE_TWICE:
                wanted = "said", TWICE
            if tool == "racecheck" and name == ONE_ARRIVES:
                wanted = "found", AFTER_OTHERS
            assert (said["verdict"], said["said"]) == wanted
