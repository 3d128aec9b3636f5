"""Pluto's orders of loops: orders of the same nests, and what Pluto says where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from phasebit import nests
from phasebit.chapters.to_pack_or_not import pluto
from phasebit.nests import misses
from phasebit.nests.examples import EXAMPLES
from phasebit.nests.loops import parse


@pytest.mark.parametrize("name", pluto.ORDERS)
def test_each_order_is_one_of_the_same_rounds(name: str) -> None:
    nest = pluto.nests()[name]
    assert nest.iterations == EXAMPLES[name].iterations
    assert any(level.step == 32 for level in nest.order)
    assert ", ".join(map(str, nest.order)) == pluto.ORDERS[name]


def test_a_small_nest_in_plutos_order_computes_the_same() -> None:
    small = parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=35, j=33, k=40, l=7)
    tiled = pluto.ordered(small, pluto.ORDERS["contraction"])
    assert nests.build(tiled, ["-O1"]).check() == "OK"


@pytest.mark.parametrize("order", ["i/32, j, k", "i, j", "i, j, k, l", "i, i/32, j, k"])
def test_what_is_no_order_of_the_loops_is_refused(order: str) -> None:
    with pytest.raises(ValueError, match=r"needs one loop of step 1|no extent is given"):
        pluto.ordered(EXAMPLES["product ijk"], order)


def test_what_the_page_says_of_the_estimates() -> None:
    share = {
        name: misses.estimate(nest).cycles / misses.estimate(EXAMPLES[name]).cycles
        for name, nest in pluto.nests().items()
    }
    assert share["contraction"] < 0.2
    assert share["batched, interleaved"] > 0.95 and share["batched"] > 0.95
    assert sum(each < 0.9 for each in share.values()) >= 9


def test_what_pluto_is_given_is_c(tmp_path: Path) -> None:
    for number, name in enumerate(pluto.ORDERS):
        file = tmp_path / f"{number}.c"
        file.write_text(pluto.written(EXAMPLES[name]), encoding="utf-8")
        subprocess.run(["gcc", "-Wno-unknown-pragmas", "-fsyntax-only", str(file)], check=True)


@pytest.mark.skipif(shutil.which("pluto") is None, reason="no pluto on PATH")
@pytest.mark.parametrize("name", pluto.ORDERS)
def test_pluto_says_these_orders(name: str, tmp_path: Path) -> None:
    file = tmp_path / "nest.c"
    file.write_text(pluto.written(EXAMPLES[name]), encoding="utf-8")
    command = ["pluto", str(file), *pluto.OPTIONS, "-o", str(tmp_path / "out.c")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    schedules = re.findall(r"^T\(S1\): \((.*)\)$", done.stdout + done.stderr, re.M)
    assert schedules[-1] == pluto.ORDERS[name]
