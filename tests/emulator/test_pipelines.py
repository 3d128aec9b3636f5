"""cuda::pipeline, memcpy_async and cuda::barrier: right under every schedule, with no finding."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit.launching.launch import Module, compile

CUDA = Path(__file__).with_name("cuda")
DATA = np.random.default_rng(3).integers(0, 1000, 6 * 128).astype(np.int32)
TILES = DATA.reshape(6, 128)

pytestmark = pytest.mark.nvcc


BUILDS = [("sm_75",), ("sm_80",), ("sm_90a",), ("sm_100a",), ("sm_90a", "-G")]


@pytest.fixture(scope="module", params=BUILDS, ids="".join)
def module(request: pytest.FixtureRequest) -> Module:
    target, *options = request.param
    return compile(CUDA / "pipelines.cu", target, options)


def launch(module: Module, kernel: str, out: Any, args: list[Any], **options: Any) -> None:
    for check in (True, False):
        out[...] = 0
        run = module[kernel].launch(1, 128, args, check=check, **options)
        assert not run.findings, run.findings[0]


@pytest.mark.parametrize(
    ("schedule", "seed"), [("eager", 0), ("late", 0), ("random", 1), ("random", 2)]
)
class TestEverySchedule:
    def test_unified(self, module: Module, schedule: str, seed: int) -> None:
        out = np.zeros(128, np.int32)
        launch(module, "unified", out, [DATA, out, 6], schedule=schedule, seed=seed)
        assert np.array_equal(out, TILES.sum(axis=0)[::-1])

    def test_divided(self, module: Module, schedule: str, seed: int) -> None:
        out = np.zeros(1, np.int32)
        launch(module, "divided", out, [DATA, out, 6], schedule=schedule, seed=seed)
        assert out[0] == DATA.sum()

    def test_alone(self, module: Module, schedule: str, seed: int) -> None:
        data = np.arange(6 * 128 * 4, dtype=np.int32)
        out = np.zeros(512, np.int32)
        launch(module, "alone", out, [data, out, 6], schedule=schedule, seed=seed)
        assert np.array_equal(out, data.reshape(6, 512).sum(axis=0))

    def test_leaving(self, module: Module, schedule: str, seed: int) -> None:
        out = np.zeros(128, np.int32)
        launch(module, "leaving", out, [DATA, out], schedule=schedule, seed=seed)
        rounds = np.array([0, 0, 1, 3])[np.arange(128) // 32]
        assert np.array_equal(out, DATA[:128][np.arange(128) ^ 1] + rounds)

    def test_together(self, module: Module, schedule: str, seed: int) -> None:
        out = np.zeros(128, np.int32)
        launch(module, "together", out, [DATA, out], schedule=schedule, seed=seed)
        assert np.array_equal(out, np.roll(DATA[:128], -5))

    def test_message(self, module: Module, schedule: str, seed: int) -> None:
        out = np.zeros(1, np.int32)
        launch(module, "message", out, [out], schedule=schedule, seed=seed)
        assert out[0] == 42
