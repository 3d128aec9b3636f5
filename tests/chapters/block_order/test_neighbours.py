"""The kernel with two tables is right; what its stamps say follows from their definition."""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.chapters.block_order import joined, neighbours, orders
from phasebit.edits import replace_once
from tests.kernels.emulated import emulate

_MAIN = """
#include <vector>
int main() {  // 3 × 2 tiles of C on 4 blocks, each tile from another tile's rows and columns
    using In = __nv_bfloat16;
    const int M = 3 * OrderTile::BM, N = 2 * OrderTile::BN, K = 64;
    std::vector<In> a(M * K), b(K * N);
    for (int i = 0; i < M * K; ++i) a[i] = In(float(i * 7 % 5 - 2));
    for (int i = 0; i < K * N; ++i) b[i] = In(float(i * 11 % 7 - 3));
    std::vector<Part> order, reads;
    for (int i = 0; i < 6; ++i) {
        order.push_back({i % 3, i / 3});
        reads.push_back({i % 2, 1 - i / 3});
    }
    In *A, *B;
    float* C;
    Part *table, *other;
    Stamp* stamps;
    CHECK(cudaMalloc(&A, a.size() * 2));
    CHECK(cudaMalloc(&B, b.size() * 2));
    CHECK(cudaMalloc(&C, size_t(M) * N * 4));
    CHECK(cudaMalloc(&table, 6 * sizeof(Part)));
    CHECK(cudaMalloc(&other, 6 * sizeof(Part)));
    CHECK(cudaMalloc(&stamps, 6 * sizeof(Stamp)));
    CHECK(cudaMemcpy(A, a.data(), a.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(B, b.data(), b.size() * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(table, order.data(), 6 * sizeof(Part), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(other, reads.data(), 6 * sizeof(Part), cudaMemcpyHostToDevice));
    run(A, B, C, M, N, K, table, other, 6, BLOCKS, 50, stamps, 0);
    CHECK(cudaDeviceSynchronize());
    std::vector<float> c(size_t(M) * N);
    std::vector<Stamp> told(6);
    CHECK(cudaMemcpy(c.data(), C, c.size() * 4, cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(told.data(), stamps, 6 * sizeof(Stamp), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 6; ++i) {
        const int held = i % 2 && i < BLOCKS ? 50 : 0;
        if (told[i].end <= told[i].start || told[i].start < told[i].begin + held)
            return puts("wrong stamps"), 1;
        for (int y = 0; y < OrderTile::BM; y += 37)
            for (int x = 0; x < OrderTile::BN; x += 41) {
                float sum = 0;
                for (int k = 0; k < K; ++k)
                    sum += float(a[(reads[i].row * OrderTile::BM + y) * K + k]) *
                           float(b[k * N + reads[i].col * OrderTile::BN + x]);
                const int row = order[i].row * OrderTile::BM + y;
                if (c[size_t(row) * N + order[i].col * OrderTile::BN + x] != sum)
                    return puts("wrong result"), 1;
            }
    }
    puts("OK");
}
"""


@pytest.mark.nvcc
@pytest.mark.parametrize("blocks", [6, 4])
def test_right_where_numbers_are_dealt_and_where_they_are_fixed(blocks: int) -> None:
    program = neighbours.source() + _MAIN.replace("BLOCKS", str(blocks))
    done = emulate(program, target="sm_90a")
    assert done.ok and not done.stderr and "OK" in done.stdout, done.stdout + done.stderr


def test_the_second_table_says_who_shares() -> None:
    order = orders.super_rows(8, 8, 4)
    for name, table in neighbours.reads(order, 8).items():
        assert len(table) == len(order)
        wave = table[8:16]
        sharing = {neighbours.APART: 8, neighbours.PAIRS: 4}
        assert len(set(wave)) == sharing.get(name, len(set(wave)))
    assert len(set(neighbours.reads(order, 8)[neighbours.FOUR])) == 4


def test_lags_of_blocks_that_keep_step_and_of_one_that_does_not() -> None:
    begin = np.repeat([0, 1000], 4) + np.array([0, 0, 0, 100] * 2)
    stamps = np.stack([begin, begin + 50, begin + 900, np.tile(range(4), 2)], axis=1)
    told = neighbours.told(stamps, 4)
    assert told["block_us"] == 0.85 and told["begin_1"] == 0 and told["same_place"] == 1
    assert told["begin_2"] == pytest.approx(50 / 900) and told["waves"] == {"1": 0.0}
    assert told["behind"] == told["behind_end"] == 50
    assert told["behind_waves"] == {"0": 50.0, "1": 50.0}
    late = stamps + np.array([1_764_000_000_000_000_001] * 3 + [0])  # as a GPU's clock says
    assert neighbours.told(late, 4) == told


def test_neighbours_begin_together_although_nothing_keeps_them_together() -> None:
    told = neighbours.told(neighbours.dealt(132, 62, drift=0.02), 132)
    assert told["begin_1"] < 0.01 < told["spread"] and told["begin_64"] > 0.1


@pytest.mark.nvcc
@pytest.mark.parametrize("way", joined.WAYS.values())
def test_pieces_are_read_as_often_as_planned(way: int, tmp_path) -> None:  # type: ignore[no-untyped-def]
    plans = {"both": "0 0\n0 20\n", "one": "1 0\n-1 0\n"}
    for name, plan in plans.items():
        (tmp_path / name).write_text(plan)
    paths = [str(tmp_path / name) for name in plans]
    numbers = [str(way), "2", "2", "3", "50", "65536"]
    done = emulate(joined.source(), *numbers, *paths, target="sm_90a")
    assert done.ok and "OK, 2 plans" in done.stdout, done.stdout + done.stderr
    wrong = replace_once(joined.source(), "i % pieces * PIECE;", "0;")
    done = emulate(wrong, *numbers, *paths, target="sm_90a")
    assert not done.ok and "something else" in done.stderr


def test_a_plan_has_each_multiprocessor_in_its_place() -> None:
    gpcs = [list(range(18)), list(range(18, 34)), [34, 35]]
    tpcs = [[unit, unit + 1] for unit in range(0, 36, 2)]
    of = {unit: i for i, gpc in enumerate(gpcs) for unit in gpc}
    plans = joined.plans(gpcs, tpcs)
    for name, plan in plans.items():
        assert len(plan) == 36
        regions: dict[int, list[int]] = {}
        for unit, (region, _) in enumerate(plan):
            if region >= 0:
                regions.setdefault(region, []).append(unit)
        for sharers in regions.values():
            if name.startswith("two of a TPC"):
                assert sharers[0] // 2 == sharers[1] // 2
            elif name.startswith("two TPCs of a GPC"):
                assert of[sharers[0]] == of[sharers[1]] and sharers[0] // 2 != sharers[1] // 2
            elif name.startswith("two GPCs"):
                assert of[sharers[0]] != of[sharers[1]]
        lates = {shift for _, shift in plan}
        assert lates == {0, int(name.split()[-2])} if name.endswith("ns") else lates == {0}
