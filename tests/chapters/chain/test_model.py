"""The model of a row of rings: Part I's for one ring, and its law."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from phasebit.chapters.chain import rates
from phasebit.chapters.chain.model import Chain, Ring, Role, draw, draw_circuit
from phasebit.pipeline import Pipeline, simulate, steady_rate


def one_ring(produce: int, consume: int, slots: int, full: int, empty: int) -> Chain:
    return Chain(
        [Role("producer", 1, produce, full), Role("consumer", 1, consume, empty)],
        [Ring("ring", slots, 1)],
    )


@pytest.mark.parametrize("slots", [1, 2, 3, 4])
def test_one_ring_is_part_ones_clock_by_clock(slots: int) -> None:
    for produce, consume, full, empty in itertools.product((1, 2, 5), (1, 3, 4), (0, 1), (0, 2)):
        jobs = simulate(Pipeline(1, 1, slots, produce, consume, full, empty), jobs=12).jobs
        ours = one_ring(produce, consume, slots, full, empty).run(12)
        assert [(w.begin, w.end) for w in ours] == [
            *((job.fill, job.filled) for job in jobs),
            *((job.drain, job.drained) for job in jobs),
        ]


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_one_ring_goes_as_fast_as_the_law_says(slots: int) -> None:
    for produce, consume in itertools.product(range(1, 7), repeat=2):
        chain = one_ring(produce, consume, slots, 1, 1)
        rate = steady_rate(Pipeline(1, 1, slots, produce, consume))
        assert 1 / rate == max(chain.law().values()) == chain.per_tile()


def rows(seed: int) -> Chain:
    pick = random.Random(seed)
    slices, pieces = pick.randint(1, 6), pick.randint(1, 6)
    return Chain(
        [
            Role("copy engine", slices, pick.randint(1, 9), pick.randint(0, 20)),
            Role("tensor core", slices, pick.randint(1, 9)),
            Role("epilogue", pieces, pick.randint(1, 9)),
            Role("store", pieces, pick.randint(1, 9), pick.randint(0, 5)),
        ],
        [
            Ring("slices", pick.randint(1, 4), slices),
            Ring("sums", pick.randint(1, 3), 1),
            Ring("pieces", pick.randint(1, 3), pieces),
        ],
    )


@pytest.mark.parametrize("seed", range(60))
def test_no_chain_is_faster_than_the_law(seed: int) -> None:
    chain = rows(seed)
    assert chain.per_tile() >= max(chain.law().values())


def test_a_circuit_through_two_rings_can_be_slower_than_the_law() -> None:
    slower = [s for s in range(60) if rows(s).per_tile() > max(rows(s).law().values())]
    assert 0 < len(slower) < 30


def along(chain: Chain) -> int:
    """The clocks of its slowest circuit: jobs, and until each can be seen by the next role."""
    circuit = chain.circuit()
    after = {role.name: role.after for role in chain.roles}
    around = [*circuit[1:], circuit[0]]
    seen = sum(after[w.role] for w, next_ in zip(circuit, around, strict=True)
               if w.role != next_.role)  # fmt: skip
    return sum(w.end - w.begin for w in circuit) + seen


@pytest.mark.parametrize("seed", range(100))
def test_the_slowest_circuit_takes_as_long_as_its_tiles(seed: int) -> None:
    chain = rows(seed)
    assert (along(chain) / chain.per_tile()).denominator == 1


def test_one_slot_for_pieces_makes_a_circuit_through_two_rings() -> None:
    chain = rates.gemm(512, sums=1, pieces=1, shared=0)
    assert along(chain) == chain.per_tile() == 6016 > max(chain.law().values())
    assert [w.role for w in chain.circuit()] == [
        *["tensor core"] * 8, *["epilogue", "stores"] * 7, "epilogue"
    ]  # fmt: skip
    drawn = draw_circuit(chain, "a circuit")
    assert sum(span.kind == "hand-off" for span in drawn.spans) == 23


def test_a_circuit_is_not_asked_where_roles_share_a_memory() -> None:
    with pytest.raises(ValueError, match="switch it off"):
        rates.gemm(512).circuit()


@pytest.mark.parametrize(("pair", "clocks"), [(False, (5120, 4096)), (True, (4096, 4096))])
def test_c_in_bf16_moves_half_of_the_bytes_out(pair: bool, clocks: tuple[int, int]) -> None:
    how = {"pair": pair, "stages": 6 if pair else 4}
    assert tuple(rates.gemm(512, out_bytes=b, **how).per_tile() for b in (4, 2)) == clocks


def sharing(seed: int) -> Chain:
    pick = random.Random(seed)
    chain = rows(seed)
    shared = [replace(role, shared=pick.randint(0, 60)) for role in chain.roles]
    return Chain(shared, chain.rings, pick.randint(1, 16))


@pytest.mark.parametrize("seed", range(40))
def test_a_shared_memory_moves_no_more_than_it_can(seed: int) -> None:
    chain, free = sharing(seed), rows(seed)
    moved = sum(r.jobs * r.shared for r in chain.roles)
    assert chain.law()["shared memory"] * chain.shared_a_clock == moved
    took = max(work.end for work in chain.run(20))
    assert took >= 20 * chain.law()["shared memory"]
    assert took >= max(work.end for work in free.run(20))


def test_roles_that_share_a_memory_take_turns_at_it() -> None:
    roles = [Role("a", 1, 3, 0, 8), Role("b", 1, 2, 0, 8)]
    apart, shared = (Chain(roles, [Ring("r", 2, 1)], rate) for rate in (1000, 2))
    assert (apart.per_tile(), shared.per_tile()) == (3, 8)
    assert (apart.binds(), shared.binds()) == ("a", "shared memory")


@pytest.mark.parametrize(
    ("how", "sums", "clocks", "binds"),
    [
        ({"shared": 0}, 1, 5120, "ring of sums"),
        ({"shared": 0}, 2, 4096, "tensor core"),
        ({}, 1, 5888, "ring of sums"),
        ({}, 2, 5120, "shared memory"),
        ({"writes": True}, 2, 8192, "shared memory"),
        ({"pair": True, "stages": 6}, 2, 4096, "tensor core"),
        ({"pair": True, "stages": 6, "writes": True}, 2, 6144, "shared memory"),
    ],
)
def test_what_the_chapter_says_of_a_tile(
    how: dict[str, int], sums: int, clocks: int, binds: str
) -> None:
    chain = rates.gemm(512, sums=sums, **how)  # type: ignore[arg-type]
    assert (chain.per_tile(), chain.binds()) == (clocks, binds)


@pytest.mark.parametrize("sums", [1, 2, 3])
def test_two_sums_hide_the_shorter_of_product_and_epilogue(sums: int) -> None:
    chain = Chain([Role("tensor core", 4, 3), Role("epilogue", 1, 9)], [Ring("sums", sums, 1)])
    assert chain.per_tile() == (21 if sums == 1 else 12)


def test_the_picture_has_every_job() -> None:
    chain = rows(3)
    drawn = draw(chain, 2, "a run")
    assert len(drawn.spans) == 2 * sum(r.jobs for r in chain.roles)


@pytest.mark.parametrize(
    ("roles", "rings", "says"),
    [
        ([Role("a", 1, 1)], [Ring("r", 1, 1)], "a ring between each two"),
        ([Role("a", 3, 1), Role("b", 1, 1)], [Ring("r", 1, 2)], "give a multiple"),
    ],
)
def test_a_chain_that_does_not_fit_is_refused(
    roles: list[Role], rings: list[Ring], says: str
) -> None:
    with pytest.raises(ValueError, match=says):
        Chain(roles, rings)


def test_a_shared_memory_without_a_rate_is_refused() -> None:
    with pytest.raises(ValueError, match="how many bytes"):
        Chain([Role("a", 1, 1, 0, 16)], [])


def test_what_the_roles_move_adds_up_to_the_bound_of_the_shared_memory() -> None:
    chains = {"f32": rates.gemm(512), "bf16, a pair": rates.gemm(512, out_bytes=2, pair=True)}
    spans = rates.moved(chains).spans
    with pytest.raises(ValueError, match="no time"):
        rates.moved({"free": rates.gemm(512, shared=0)})
    for name, chain in chains.items():
        ends = {row: max(span.end for span in spans if span.row == f"{name}: {row}")
                for row in ("shared memory", "products")}  # fmt: skip
        assert ends["shared memory"] == chain.law()["shared memory"]
        assert max(ends.values()) == chain.per_tile(), "the longer of the two sets the pace"
