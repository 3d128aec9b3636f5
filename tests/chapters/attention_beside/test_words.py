"""What *Attention beside others* says in words of its record: a new count must keep it."""

from __future__ import annotations

from phasebit.chapters.attention_again import role_counts
from phasebit.chapters.attention_beside import block_lengths


def test_what_is_said_of_both_kernels() -> None:
    record = role_counts.recorded()
    ours, theirs = record["ours"], record["cutlass"]
    more = {role: theirs["instructions"][role] / ours["instructions"][role]
            for role in role_counts.OURS}  # fmt: skip
    assert max(more, key=lambda role: more[role]) == "multiplier"
    assert 2.8 < more["multiplier"] < 3.2, "three times as many"
    assert min(more.values()) >= 1, "in no row is our number the larger"
    told = "products", "powers", "barriers", "columns", "read", "multiplied", "fetched", "stored"
    assert all(ours[what] <= theirs[what] for what in (*told, "written"))
    assert ours["products"] == theirs["products"] and ours["columns"] == theirs["columns"] == 512
    assert record["softmax_registers"] == role_counts.softmax_registers()
    assert [what for what, one, other in role_counts.rows() if one == other] == [
        "registers that a softmax thread asks for",
        "products of the tensor core",
        "columns of tensor memory held",
        "KiB from global to shared memory",
        "KiB from shared memory to the tensor core",
        "KiB from shared to global memory",
    ]


def test_what_is_said_of_the_order_of_blocks() -> None:
    first, _, last = block_lengths.ORDERS
    said = [f"{block_lengths.latest(block_lengths.lengths(order, tokens, 16), 148):.2f}"
            for tokens in (4096, 16_384) for order in (first, last)]  # fmt: skip
    assert said == ["1.70", "1.09", "1.18", "1.01"]


def test_what_is_said_of_heads_at_a_time() -> None:
    of = [block_lengths.heads_at_a_time(block_lengths.order_of(order, 64, 16), 148)
          for order in block_lengths.ORDERS]  # fmt: skip
    assert [round(each, 1) for each in of] == [4.6, 4.0, 16.0], "four or five heads, and sixteen"


def test_what_the_exercise_says_of_18_heads() -> None:
    def ends(order: list[tuple[int, int]]) -> str:
        return f"{block_lengths.latest([block_lengths.of_block(b) for _, b in order], 148):.2f}"

    ours = block_lengths.by_groups(64, 18, 4)
    other = [(17 - head, block) for head, block in ours]  # heads change names: as early
    left_over_last = [*ours[2 * 64 :], *ours[: 2 * 64]]
    assert [ends(each) for each in (ours, other, left_over_last)] == ["1.02", "1.02", "1.12"]
    assert block_lengths.farthest(ours) <= 4 * 64
