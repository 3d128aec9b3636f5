"""compute-sanitizer: its output is understood, and the book's kernels were clean under it."""

from __future__ import annotations

import pytest

from phasebit import files, measure, replay
from phasebit.benchmarks import clean_kernels, sanitizer, threads_and_memory

ARRIVE_TWICE = ("12_pipeline", "12_mbarrier")
TWICE = ["Barrier error detected. Missing wait."]
"""What synccheck says where copies arrive beside their thread: see clean_kernels."""


class TestJudge:
    """Output of compute-sanitizer, as it looks."""

    def test_found(self) -> None:
        text = (
            "========= Invalid __global__ read of size 4 bytes\n"
            "=========     at matmul(const float *)+0x40 in x.cu:30\n"
            "=========         Host Frame: launch(const float *) in x.cu:40 [0x1]\n"
            "========= ERROR SUMMARY: 1 error\n"
        )
        assert sanitizer.judge(text, False, "x.cu") == {
            "verdict": "found", "said": ["Invalid __global__ read of size 4 bytes"], "lines": [30],
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("text", "stopped", "verdict"),
        [
            ("========= ERROR SUMMARY: 0 errors\n", False, "nothing"),
            ("========= RACECHECK SUMMARY: 0 hazards displayed (0 errors)\n", False, "nothing"),
            ("the kernel did not end: …\n========= ERROR SUMMARY: 0 errors\n", False, "hangs"),
            ("========= COMPUTE-SANITIZER\n", True, "hangs"),
            ("========= Barrier error detected. Divergent threads\n", False, "said"),
        ],
    )
    def test_other_verdicts(self, text: str, stopped: bool, verdict: str) -> None:
        assert sanitizer.judge(text, stopped, "x.cu")["verdict"] == verdict


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
        kept = clean_kernels._kept(every, today)
        assert {name: said["date"] for name, said in kept.items()} == {
            "same": "yesterday", "dated": "long ago",
        }  # fmt: skip
        assert kept["same"]["tools"] == {"memcheck": {}}
        assert clean_kernels._kept(every, {**today, "gpu": "another"}) == {}


class TestRecord:
    def test_it_is_about_these_very_programs(self) -> None:
        """Red after a change of a kernel, until recorded again."""
        known = measure.read(clean_kernels.NAME)["programs"]
        texts = clean_kernels.texts()
        assert {name: said["text"] for name, said in known.items()} == {
            name: replay.key(text) for name, text in texts.items()
        }

    def test_every_program_of_these_chapters_is_in_it(self) -> None:
        chapters = ("04", "12", "15")
        mine = {path.stem for path in files.kernels().glob("*.cu") if path.stem[:2] in chapters}
        mine.remove("04_tiled")  # the first kernel of chapter 11
        assert mine == {*clean_kernels.PROGRAMS, *threads_and_memory.PROGRAMS}

    @pytest.mark.parametrize("name", clean_kernels.texts())
    def test_clean(self, name: str) -> None:
        tools = measure.read(clean_kernels.NAME)["programs"][name]["tools"]
        assert set(tools) == set(sanitizer.TOOLS)
        for tool, said in tools.items():
            wanted = TWICE if tool == "synccheck" and name in ARRIVE_TWICE else []
            assert (said["verdict"], said["said"]) == ("said" if wanted else "nothing", wanted)
