"""A tensor map that a kernel changes: not while a copy goes by it, and with fences that reach.

PTX ISA 9.7.9.27.2.2 (a bulk copy reads its tensor map, and ``wait_group.read`` waits for that),
9.7.13.15.16 (who has seen the phase complete has waited for the copy), 9.7.13.4 (the fences).
"""

from __future__ import annotations

import numpy as np
import pytest

import phasebit as pb
from phasebit.launching.launch import Module
from tests.emulator.test_findings_engines import REPLACE, SM_90A, WAIT

SCHEDULES = ("eager", "late", "random")

HEAD = (
    ".visible .entry k(.param .u64 map, .param .u64 x, .param .u64 flag) {",
    ".reg .b64 %rd<9>; .reg .b32 %r<19>; .reg .pred %p<9>;",
    ".shared .align 128 .b8 tile[256]; .shared .align 8 .b64 full;",
    "ld.param.u64 %rd1, [map]; ld.param.u64 %rd2, [x]; ld.param.u64 %rd3, [flag];",
)
LOAD = {
    "init": "mbarrier.init.shared::cta.b64 [full], 1; fence.mbarrier_init.release.cluster;",
    "expect": "mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;",
    "copy": "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
            " [tile], [%rd1, {0}], [full];",
    "wait": WAIT.format("A", "full", 0),
    "change": REPLACE,
    "late": "",
}  # fmt: skip
STORE = {
    "fill": "mov.u32 %r2, 0; mov.u32 %r3, tile; FILL: st.shared.u32 [%r3], %r2;"
            " add.u32 %r3, %r3, 4; add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 64; @%p1 bra FILL;"
            " fence.proxy.async.shared::cta;",
    "copy": "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {0}], [tile];",
    "commit": "cp.async.bulk.commit_group;",
    "wait": "cp.async.bulk.wait_group.read 0;",
    "change": REPLACE,
    "late": "cp.async.bulk.wait_group 0;",
}  # fmt: skip


def found(
    lines: dict[str, str], schedule: str, only: tuple[int, int] | None = None
) -> tuple[list[pb.Finding], dict[str, int]]:
    """What is found, and the line of each place; ``only``: the block, of three, and the thread, of
    64, that do it all."""
    text, places = [*SM_90A.splitlines(), *HEAD], {}
    for name, line in lines.items():
        text.append(line)
        places[name] = len(text)
    text.append("ret; }")
    x = np.zeros(64, np.float32)
    image = np.frombuffer(pb.TensorMap(x, (64,)).at(1 << 40).encode(), np.uint8).copy()
    args = [image, x, np.zeros(4, np.uint32)]
    blocks = 2 if "%ctaid" in "".join(text) else 1
    # the map is that of x from the beginning: a change to the same address changes nothing
    first = SM_90A + "".join(HEAD) + REPLACE + "ret; }"
    Module(first)["k"].launch(1, 1, args)
    threads = 1
    if only is not None:
        blocks, threads = 3, 64
        text[places[next(iter(lines))] - 1] = (
            f"mov.u32 %r8, %ctaid.x; mov.u32 %r9, %tid.x; setp.ne.u32 %p8, %r8, {only[0]}; "
            f"@%p8 ret; setp.ne.u32 %p8, %r9, {only[1]}; @%p8 ret; {next(iter(lines.values()))}"
        )
    run = Module("\n".join(text))["k"].launch(blocks, threads, args, schedule=schedule)
    return list(run.findings), places


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("lines", [LOAD, STORE], ids=["load", "store"])
def test_a_map_is_changed_when_its_copy_is_over(lines: dict[str, str], schedule: str) -> None:
    right, _ = found(lines, schedule)
    assert not right, right[0]
    wrong, places = found(lines | {"wait": "", "late": lines["wait"] + lines["late"]}, schedule)
    assert [each.rule for each in wrong] == ["tensor-map-changed-in-use"]
    assert f"PTX line {places['change']}" in wrong[0].message
    assert f"PTX line {places['copy']}" in wrong[0].message


DRAINED = STORE["commit"] + STORE["wait"]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_who_asked_for_loads_may_wait_for_its_groups(schedule: str) -> None:
    """As CUTLASS's grouped products do, though a load is in no group; without either half it is
    found, and so is a load that comes behind the two."""
    late = LOAD["wait"]
    right, _ = found(LOAD | {"wait": DRAINED, "late": late}, schedule)
    assert not [each for each in right if each.rule == "tensor-map-changed-in-use"], right
    early = {name: LOAD[name] for name in ("init", "expect")} | {"early": DRAINED}
    for lines in (LOAD | {"wait": STORE["wait"]}, LOAD | {"wait": STORE["commit"]},
                  early | {name: LOAD[name] for name in ("copy", "change")}):  # fmt: skip
        wrong, _ = found(lines | {"late": late}, schedule)
        assert "tensor-map-changed-in-use" in [each.rule for each in wrong]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_the_newest_copy_counts(schedule: str) -> None:
    """``wait_group.read 1`` leaves the newest group, which goes by the same map."""
    outside = STORE["copy"].replace("{0}", "{64}")  # where nothing is written
    twice = {"copy again": outside, "commit again": STORE["commit"]}
    before = dict(list(STORE.items())[:3])
    behind = {name: line for name, line in STORE.items() if name not in before}
    lines = before | twice | behind
    assert not found(lines, schedule)[0]
    wrong, _ = found(lines | {"wait": "cp.async.bulk.wait_group.read 1;"}, schedule)
    assert [each.rule for each in wrong] == ["tensor-map-changed-in-use"]


RELAYED = {
    "who": "mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 bra TAKER;",
    "change": REPLACE,
    "release": "fence.proxy.tensormap::generic.release.gpu;",
    "flag": "st.release.gpu.global.u32 [%rd3], 1; ret;",
    "seen": "TAKER: ld.acquire.gpu.global.u32 %r2, [%rd3]; setp.eq.u32 %p2, %r2, 0;"
            " @%p2 bra TAKER;",
    "acquire": "fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;",
} | {name: LOAD[name] for name in ("init", "expect", "copy", "wait")}  # fmt: skip
"""Block 0 changes the map, block 1 copies by it."""


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("taker", [0, 1])
@pytest.mark.parametrize(
    ("at", "words"), [("release", "generic.release"), ("acquire", "generic.acquire")]
)
def test_a_fence_of_the_block_does_not_reach_another(
    at: str, words: str, taker: int, schedule: str
) -> None:
    lines = RELAYED | {"who": RELAYED["who"].replace("%r1, 1;", f"%r1, {taker};")}
    assert not found(lines, schedule)[0]
    wrong, places = found(lines | {at: RELAYED[at].replace(".gpu", ".cta")}, schedule)
    assert [each.rule for each in wrong] == ["missing-tensormap-fence"]
    assert words in wrong[0].message and "scope that reaches the other block" in wrong[0].message
    assert f"PTX line {places['copy']}" in wrong[0].message


@pytest.mark.parametrize("only", [(0, 0), (2, 37), (1, 5)])
def test_who_changes_a_map_and_who_copies_by_it_are_named(only: tuple[int, int]) -> None:
    who = f"thread {only[1]} of block {only[0]}"
    for lines, why in (
        (LOAD, "nobody has waited for mbarrier full"),
        (STORE, "it has not waited (cp.async.bulk.wait_group.read)"),
    ):
        assert not found(lines, "late", only)[0]
        wrong = lines | {"wait": "", "late": lines["wait"] + lines["late"]}
        (finding,), places = found(wrong, "late", only)
        change, copy = (
            f"`{wrong[at].strip()[:-1]}` at PTX line {places[at]}" for at in ("change", "copy")
        )
        assert finding.message == (
            f"{who} changes a tensor map: {change}; a bulk copy of {who} may still go by it, and "
            f"{why}: {copy}"
        )
        assert finding.line == places["change"]


@pytest.mark.parametrize("only", [(0, 0), (2, 37)])
@pytest.mark.parametrize(("at", "missing"), [
    ("release", "the thread that changes it needs a fence.proxy.tensormap::generic.release "
     "(or tensormap.cp_fenceproxy, which copies and releases it)"),
    ("acquire", "between the change and the copy its block needs a "
     "fence.proxy.tensormap::generic.acquire of that address"),
])  # fmt: skip
def test_a_fence_that_is_missing_is_told_with_the_change_and_the_copy(
    at: str, missing: str, only: tuple[int, int]
) -> None:
    lines = {
        "init": LOAD["init"], "change": REPLACE,
        "release": "fence.proxy.tensormap::generic.release.cta;",
        "acquire": "fence.proxy.tensormap::generic.acquire.cta [%rd1], 128;",
        "expect": LOAD["expect"], "copy": LOAD["copy"], "wait": LOAD["wait"],
    }  # fmt: skip
    assert not found(lines, "late", only)[0]
    (finding,), places = found(lines | {at: ""}, "late", only)
    change, copy = (
        f"`{lines[name].strip()[:-1]}` at PTX line {places[name]}" for name in ("change", "copy")
    )
    assert finding.message == (
        f"a bulk copy of thread {only[1]} of block {only[0]} uses a tensor map that the kernel has "
        f"changed: {copy}; {missing}: {change}"
    )
    assert finding.line == places["copy"]


TWO = {
    "who": "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 37; setp.eq.u32 %p2, %r1, 5; "
           "@%p1 mbarrier.init.shared::cta.b64 [full], 1; bar.sync 0;",
    "expect": "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 256;",
    "copy": "@%p1 " + LOAD["copy"],
    "drain": "",
    "meet": "bar.sync 0;",
    "change": "@%p2 " + REPLACE,
    "wait": LOAD["wait"],
}  # fmt: skip
"""Thread 37 copies by the map, thread 5 changes it."""


@pytest.mark.parametrize(("edits", "right"), [
    ({}, False), ({"meet": LOAD["wait"].replace("A", "B"), "wait": ""}, True),
    ({"drain": "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"}, True),
    ({"meet": "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0;"}, False),
    ({"drain": "@%p2 cp.async.bulk.commit_group; @%p2 cp.async.bulk.wait_group.read 0;"}, False),
    ({"copy": "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group.read 0; "
      + TWO["copy"]}, False),
])  # fmt: skip
@pytest.mark.parametrize("blocks", [1, 3])
def test_another_thread_changes_the_map(
    edits: dict[str, str], right: bool, blocks: int
) -> None:
    """It has to know that the copy has read: by its barrier, or from the thread that waited."""
    lines = dict(TWO)
    if blocks == 3:  # only the last of them
        lines["who"] = "mov.u32 %r8, %ctaid.x; setp.ne.u32 %p8, %r8, 2; @%p8 ret; " + lines["who"]
    text = [*SM_90A.splitlines(), *HEAD, *(lines | edits).values(), "ret; }"]
    x = np.zeros(64, np.float32)
    image = np.frombuffer(pb.TensorMap(x, (64,)).at(1 << 40).encode(), np.uint8).copy()
    args = [image, x, np.zeros(4, np.uint32)]
    Module(SM_90A + "".join(HEAD) + REPLACE + "ret; }")["k"].launch(1, 1, args)
    said = Module("\n".join(text))["k"].launch(blocks, 64, args).findings
    mine = [each.message for each in said if each.rule == "tensor-map-changed-in-use"]
    assert bool(mine) != right
    assert all(
        one.startswith(f"thread 5 of block {blocks - 1} changes a tensor map: ")
        and f"; a bulk copy of thread 37 of block {blocks - 1} may still go by it, and " in one
        for one in mine
    )


@pytest.mark.parametrize(("offset", "of_it"), [(0, True), (124, True), (-4, False), (128, False)])
def test_a_map_has_128_bytes(offset: int, of_it: bool) -> None:
    """A word of it that a thread has stored needs the fences; one beside it does not."""
    store = f"ld.global.u32 %r2, [%rd1+{offset}]; st.global.u32 [%rd1+{offset}], %r2;"
    lines = LOAD | {"copy": f"{store} {LOAD['copy']}", "change": ""}
    text = [*SM_90A.splitlines(), *HEAD, "add.u64 %rd1, %rd1, 128;", *lines.values(), "ret; }"]
    x = np.zeros(64, np.float32)
    image = np.frombuffer(pb.TensorMap(x, (64,)).at(1 << 40).encode(), np.uint8)
    memory = np.concatenate([image, image, image])
    args = [memory, x, np.zeros(4, np.uint32)]
    Module(SM_90A + "".join(HEAD) + "add.u64 %rd1, %rd1, 128;" + REPLACE + "ret; }")["k"].launch(
        1, 1, args
    )
    rules = {each.rule for each in Module("\n".join(text))["k"].launch(1, 1, args).findings}
    assert rules == ({"missing-tensormap-fence"} if of_it else set())


@pytest.mark.parametrize(("offset", "met"), [(0, True), (124, True), (128, False), (-4, False)])
def test_a_change_touches_the_whole_map_and_nothing_else(offset: int, met: bool) -> None:
    """Thread 37 stores to a word while thread 5 changes the map: a race, where it is of the map."""
    who = "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 37; setp.eq.u32 %p2, %r1, 5; "
    store = f"add.u64 %rd1, %rd1, 128; mov.u32 %r2, 7; @%p1 st.global.u32 [%rd1+{offset}], %r2;"
    text = [*SM_90A.splitlines(), *HEAD, who + store, "@%p2 " + REPLACE, "ret; }"]
    x = np.zeros(64, np.float32)
    image = np.frombuffer(pb.TensorMap(x, (64,)).at(1 << 40).encode(), np.uint8)
    args = [np.concatenate([image, image, image]), x, np.zeros(4, np.uint32)]
    found = Module("\n".join(text))["k"].launch(1, 64, args).findings
    assert [each.kind for each in found] == ["race"] * met
    assert not met or f"argument 0[{128 + offset} bytes in]" in found[0].message
