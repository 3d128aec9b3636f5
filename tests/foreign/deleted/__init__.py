"""An attention kernel that Triton compiled, and which of its synchronisation it needs.

``make.py`` writes ``sm_90.json.xz`` and ``sm_100.json.xz``: the PTX, by which version and when, and
the launch. ``redundant.toml`` names the instructions without which the kernel is still right by the
letter of the ISA, each by its line in that text, with the reason. All others must be missed.

    python -m tests.foreign.deleted sm_90        what becomes of the kernel without each of them
"""

from __future__ import annotations

import json
import lzma
import tomllib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from phasebit.emulator import EmulatorError, TensorMap
from phasebit.launching.launch import Module
from phasebit.runtime.deletions import Deletion, deletions

FOLDER = Path(__file__).parent
TARGETS = ("sm_90", "sm_100")
SCHEDULES = (("late", 0), ("eager", 0), ("random", 1))
"""In random 1 ``elect.sync`` does not name the first lane."""
Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Attention:
    """The kernel for one target: a block that attends with ROWS queries to all keys."""

    target: str

    @cached_property
    def about(self) -> dict[str, Any]:
        """What ``make.py`` wrote."""
        kept = (FOLDER / f"{self.target}.json.xz").read_bytes()
        return dict(json.loads(lzma.decompress(kept)))

    @cached_property
    def deletions(self) -> list[Deletion]:
        """Each of the synchronisation instructions, in the order of the text."""
        return deletions(self.about["ptx"])

    @cached_property
    def redundant(self) -> dict[int, str]:
        """Line -> why the kernel is right without that instruction."""
        table = tomllib.loads((FOLDER / "redundant.toml").read_text(encoding="utf-8"))
        return {line: each["why"] for each in table[self.target] for line in each["lines"]}

    def noticed(self, ptx: str, how: tuple[str, int]) -> str:
        """What is found in a run of this text, or how else it goes wrong; empty if in no way."""
        rows, keys, depth = self.about["shape"]
        random = np.random.default_rng(0)
        q, k, v = (random.integers(-2, 3, (n, depth)) / 4 for n in (rows, keys, keys))
        scores = np.exp(q @ k.T - (q @ k.T).max(1, keepdims=True))
        wanted = scores / scores.sum(1, keepdims=True) @ v
        out = np.full((rows, depth), 9, np.float16)
        arrays = {"q": q.astype(np.float16), "k": k.astype(np.float16), "v": v.astype(np.float16),
                  "out": out}  # fmt: skip
        given: list[Any] = []
        for each in self.about["args"]:
            if isinstance(each, dict) and "box" in each:
                given.append(TensorMap(arrays[each["array"]], each["box"], swizzle=each["swizzle"]))
            else:
                given.append(
                    np.zeros(each["scratch"], np.uint8) if isinstance(each, dict) else each
                )
        module = Module(ptx)
        try:
            run = module[module.kernels[0]].launch(
                1, self.about["threads"], given, shared=self.about["shared"], schedule=how[0],
                seed=how[1],
            )  # fmt: skip
        except EmulatorError as error:
            return type(error).__name__
        found = ", ".join(sorted({finding.rule for finding in run.findings}))
        return found or ("" if np.abs(out - wanted).max() < 0.01 else "wrong numbers")

    def without(self, deletion: Deletion) -> str:
        """What the first schedule that notices says of a kernel without it; empty if none."""
        text = deletion.applied(self.about["ptx"])
        return next(filter(None, (self.noticed(text, how) for how in SCHEDULES)), "")
