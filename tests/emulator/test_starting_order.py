"""In which order blocks start: the grid's, and the blocks of a cluster together."""

from __future__ import annotations

import pytest

from phasebit.emulator.machine.starting_order import StartingOrder

Three = tuple[int, int, int]


def block_order(grid: Three, cluster: Three) -> list[int]:
    """All blocks, in the order in which they start."""
    return StartingOrder(grid, cluster).blocks(0, grid[0] * grid[1] * grid[2]).tolist()


def test_without_clusters_blocks_start_by_their_number() -> None:
    assert [*block_order((3, 2, 2), (1, 1, 1))] == [*range(12)]


@pytest.mark.parametrize(("grid", "cluster", "order"), [
    ((4, 1, 1), (2, 1, 1), [0, 1, 2, 3]),
    ((4, 2, 1), (2, 2, 1), [0, 1, 4, 5, 2, 3, 6, 7]),
    ((2, 2, 2), (1, 1, 2), [0, 4, 1, 5, 2, 6, 3, 7]),
    ((2, 4, 1), (1, 2, 1), [0, 2, 1, 3, 4, 6, 5, 7]),
])  # fmt: skip
def test_a_cluster_starts_as_a_whole(grid: Three, cluster: Three, order: list[int]) -> None:
    assert [*block_order(grid, cluster)] == order


@pytest.mark.parametrize("cluster", [(2, 3, 2), (3, 1, 2), (1, 3, 2), (2, 3, 1)])
def test_clusters_follow_x_then_y_then_z_and_so_do_their_blocks(cluster: Three) -> None:
    """%cluster_ctarank, the PTX ISA's section 10.18: x first."""
    grid = (6, 6, 4)

    def place(block: int) -> Three:
        return block % 6, block // 6 % 6, block // 36

    def key(block: int) -> tuple[int, ...]:
        at = place(block)
        outer = [x // c for x, c in zip(at, cluster, strict=True)]
        inner = [x % c for x, c in zip(at, cluster, strict=True)]
        return (*outer[::-1], *inner[::-1])

    assert [*block_order(grid, cluster)] == sorted(range(144), key=key)
