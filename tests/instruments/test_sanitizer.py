"""compute-sanitizer: its output is understood."""

from __future__ import annotations

import pytest

from phasebit.instruments import sanitizer


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
