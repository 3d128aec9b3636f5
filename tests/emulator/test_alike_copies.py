"""Copies that threads ask for at once are judged together, and just as each by itself would be."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator.checker.proxies import Engine
from tests.emulator import saved
from tests.emulator.test_bulk import BULK

KERNEL = (
    BULK
    + """
extern "C" __global__ void k(const int4* in, int4* out, int4* given, int what) {
    __shared__ alignas(128) int4 x[2 * 64 + 1];
    __shared__ unsigned long long full;
    int t = threadIdx.x, other = t ^ 33;
    out += 64 * blockIdx.x, given += 130 * blockIdx.x;
    unsigned bar = address(&full);
    if (t == 0) { init(bar, 64); fence_init(); }
    if (what == 3 || what == 4) x[t] = make_int4(t, t, t, t);
    if (what == 4) fence_async();
    if (what == 5) given[other] = make_int4(t, t, t, t);
    __syncthreads();
    for (int round = 0; round < 2; ++round) {
        int4* to = x + (what == 2 ? t / 2 : what == 7 ? 2 * t : t);
        const int4* from = (what == 5 ? given : in) + 2 * t + round;
        int bytes = what == 7 && t % 3 ? 32 : 16;
        expect(bar, bytes);
        if (what != 8 || t % 5) load(to, from, bytes, bar);
        else load(to, from, bytes, bar);
        if (what != 1) wait(bar, round & 1);
        if (what == 6) out[t] = x[other];
        else out[t] = x[what == 7 ? 2 * t : t];
        if (what == 9) __syncwarp();
        else if (what != 6) __syncthreads();
    }
}
"""
)
WHAT = {
    "right": (0, ""),
    "nobody waits": (1, "missing-mbarrier-wait"),
    "two copies to one place": (2, "missing-mbarrier-wait"),
    "stored there without a fence": (3, "missing-proxy-fence"),
    "stored there, and fenced": (4, ""),
    "the source was stored in this launch": (5, "missing-proxy-fence"),
    "another thread still reads there": (6, "race"),
    "sizes that differ": (7, ""),
    "two instructions": (8, ""),
    "only the warp has come": (9, "missing-proxy-fence"),
}


@pytest.mark.parametrize("schedule", ["eager", "late", "random"])
@pytest.mark.parametrize("what", WHAT)
def test_together_as_one_by_one(what: str, schedule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    number, rule = WHAT[what]
    kernel = saved.module("alike_copies")["k"]

    def seen() -> tuple[Any, ...]:
        given = np.arange(3 * 130 * 4, dtype=np.int32)
        source, out = given.copy(), np.zeros_like(given)
        run = kernel.launch(
            3, 64, [given, out, source, number], schedule=schedule, on_fault="report"
        )
        return [finding.message for finding in run.findings], run.counters, out.tolist(), run

    *together, run = seen()
    monkeypatch.setattr(Engine, "_starts_alike", lambda *_: False)
    *alone, _ = seen()
    assert together == alone
    if not rule:
        assert not run.findings
    else:
        assert rule in {finding.rule for finding in run.findings}


def test_copies_alike_are_judged_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_starts", lambda *_: pytest.fail("a copy was judged by itself"))
    given = np.arange(130 * 4, dtype=np.int32)
    saved.module("alike_copies")["k"].launch(1, 64, [given, given.copy(), given.copy(), 0])
