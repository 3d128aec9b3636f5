"""Pictures of accesses show what the run did; their rows are as many as the counters say."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit import files, patterns
from phasebit.emulator import ABSENT, Access, LaunchError, traffic
from phasebit.launching.launch import Module, compile

LANE = np.arange(32)
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


def shared(addresses: np.ndarray, size: int = 4, op: str = "load") -> Access:
    return Access("shared", op, size, 0, 0, np.asarray(addresses, np.int64), "shared memory", None)


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("op", ["load", "store"])
def test_as_many_wavefronts_as_are_counted(size: int, op: str) -> None:
    draw = np.random.default_rng(4)
    cases = [LANE, 0 * LANE, 2 * LANE, 32 * LANE, 33 * LANE, LANE // 2, LANE % 2 * 32]
    cases += [draw.integers(0, 300, 32) for _ in range(50)]
    for case in cases:
        addresses = np.where(draw.random(32) < 0.9, case * size, ABSENT)
        if (addresses == ABSENT).all():
            continue
        drawn = patterns.wavefronts(shared(addresses, size, op))
        assert len(drawn) == traffic.bank_passes(addresses, size, op == "load")[0]
        for wave in drawn:
            assert all(word % 32 == bank for bank, (word, _) in wave.items())
        served = {(lane, word) for wave in drawn for word, lanes in wave.values() for lane in lanes}
        wanted = {
            (int(lane), byte // 4)
            for lane in LANE[addresses != ABSENT]
            for byte in range(int(addresses[lane]), int(addresses[lane]) + size)
        }
        assert served == wanted


def test_the_words_of_a_picture_carry_it() -> None:
    text = str(patterns.banks(shared(128 * LANE), "a column"))
    assert text.startswith("a column") and len(text.splitlines()) == 33
    assert text.splitlines()[6].split("|")[1].split() == ["5"] + ["."] * 31
    row = Access("global", "load", 4, 0, 0, 4 * LANE + 4, "argument 0", None)
    lines = str(patterns.sectors(row, "one off")).splitlines()
    assert len(lines) == 6 and lines[1].split("|")[1].split() == ["·", *map(str, range(7))]
    assert str(patterns.lanes({"a": row}, "t")).splitlines()[1].split()[-1] == "4"


@pytest.fixture(scope="module")
def sectors() -> Module:
    return compile(files.kernel("threads_and_memory/sectors"), "sm_75")


@pytest.mark.nvcc
def test_pictures_and_counters_see_the_same_run(sectors: Module) -> None:
    for kernel in sectors.kernels:
        x, y = np.zeros(4096, np.float32), np.zeros(32, np.float32)
        run = sectors[kernel].launch(1, 32, [x, y], accesses=True)
        load, store = run.accesses
        assert (load.space, load.op, store.op) == ("global", "load", "store")
        assert (load.array, store.array) == ("argument 0", "argument 1")
        assert (load.block, load.warp) == (0, 0)
        rows = str(patterns.sectors(load, kernel)).splitlines()[1:]
        assert len(rows) == run.counters[SECTORS]
        lines = files.kernel("threads_and_memory/sectors").splitlines()
        assert lines[(load.line or 0) - 1].count("x")
        assert (store.addresses == 4 * LANE).all()


@pytest.mark.nvcc
def test_counters_that_agree_with_the_profiler_stand_once() -> None:
    runs = {"one": {"a": 1, "b": 1000}, "two": {"a": 2}}
    theirs = {"one": {"a": 1, "b": 1000}, "two": {"a": 2, "b": 0}}
    table = patterns.beside(runs, theirs, {"A": "a", "B": "b"}, "a GPU")
    assert table.heading == ("kernel", "A", "B")
    assert table.rows == (("one", "1", "1,000"), ("two", "2", "0"))
    assert "alike by both: a GPU" in str(table)
    theirs["two"]["b"] = 5
    table = patterns.beside(runs, theirs, {"A": "a", "B": "b"}, "a GPU")
    assert table.heading == ("kernel", "A", "B", "B, profiler")
    assert table.rows[1] == ("two", "2", "0", "5") and "alike" not in str(table)


def test_blocks_and_warps_are_told_apart() -> None:
    module = compile(
        "extern \"C\" __global__ void f(float* y) {\n"
        "__shared__ float s[96]; s[threadIdx.x] = 1; __syncthreads();\n"
        "if (threadIdx.x % 2) y[blockIdx.x * 70 + threadIdx.x] = s[threadIdx.x]; }", "sm_75",
    )  # fmt: skip
    run = module["f"].launch(2, 70, [np.zeros(140, np.float32)], accesses=True)
    stores = [a for a in run.accesses if a.space == "global"]
    assert [(a.block, a.warp) for a in stores] == [(b, w) for b in (0, 1) for w in (0, 1, 2)]
    assert stores[5].lanes == [1, 3, 5] and stores[5].addresses[1] == 4 * (70 + 65)
    fills = [a for a in run.accesses if a.space == "shared" and a.op == "store"]
    assert {int(a.addresses[0]) for a in fills} == {0, 128, 256}  # from each block's own beginning


@pytest.mark.nvcc
def test_addresses_are_kept_only_when_asked_for(sectors: Module) -> None:
    args = [np.zeros(4096, np.float32), np.zeros(32, np.float32)]
    assert sectors["neighbours"].launch(1, 32, args).accesses == []
    with pytest.raises(LaunchError, match="needs check=True"):
        sectors["neighbours"].launch(1, 32, args, accesses=True, check=False)
