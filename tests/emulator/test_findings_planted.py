"""Every planted mistake is found, as what it is and where it is; its repaired twin is clean.

Under each schedule of asynchronous work.  What compute-sanitizer found in the same kernels
on an H200 is in ``records/sanitizer_h200.json``.
"""

from __future__ import annotations

import json

import pytest

from phasebit import files, toolchain
from phasebit.chapters.a_gpu_you_can_read.planted_mistakes import EMULATOR, SANITIZER
from tests.emulator import cases, replay

SCHEDULES = [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]

PLANTED = {case.name: case for case in cases.planted()}
REPAIRED = {case.name: case for case in cases.planted(repaired=True)}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda s: f"{s[0]}{s[1]}")
class TestPlanted:
    pytestmark = pytest.mark.nvcc

    @pytest.mark.parametrize("name", PLANTED)
    def test_found(self, name: str, schedule: tuple[str, int]) -> None:
        findings = replay.findings(PLANTED[name], *schedule)
        assert replay.as_expected(PLANTED[name], findings), findings

    @pytest.mark.parametrize("name", REPAIRED)
    def test_repaired(self, name: str, schedule: tuple[str, int]) -> None:
        assert not replay.findings(REPAIRED[name], *schedule)


class TestRecords:
    def test_every_mistake_is_recorded(self) -> None:
        for file in (SANITIZER, EMULATOR):
            record = json.loads((files.records() / file).read_text(encoding="utf-8"))
            assert set(record["planted"]) == set(PLANTED), file
            assert set(record["repaired"]) == set(REPAIRED), file

    @pytest.mark.nvcc
    def test_the_emulators_record_is_what_it_finds(self) -> None:
        record = json.loads((files.records() / EMULATOR).read_text(encoding="utf-8"))
        # How far a broken kernel goes wrong depends on the order in which a compiler puts it.
        here = ".".join(toolchain.nvcc().version.split(".")[:2])
        expected = record["planted"] | record["otherwise"].get(here, {})
        assert expected == {n: replay.summary(c) for n, c in PLANTED.items()}
        assert record["repaired"] == {n: replay.summary(c) for n, c in REPAIRED.items()}
