"""Which entry of the table an instruction selects, and what is said where there is none."""

from __future__ import annotations

import dataclasses

import pytest

import phasebit.emulator.ops  # noqa: F401, it fills the table
from phasebit.emulator.errors import PtxError
from phasebit.emulator.ops.compare import setp
from phasebit.emulator.ops.listing import BY_WORDS, agreed, describe, listing, types_of
from phasebit.emulator.ptx.table import (
    FAMILIES,
    PLAIN,
    TABLE,
    Selected,
    Traits,
    entries,
    filled,
    select,
)
from tests.emulator.test_blocks import one


def chosen(text: str) -> Selected:
    return select(one(text))


CHOSEN = [
    ("add.u32 %r1, %r1, 1;", "add", "integer", ("u32",)),
    ("add.f32 %r1, %r1, 1.0;", "add", "floating", ("f32",)),
    ("mul.wide.u32 %rd1, %r1, 1;", "mul.wide", "integer", ("u32",)),
    ("mbarrier.arrive.shared.b64 %rd1, [%r1];", "mbarrier.arrive", "mbarrier", ("b64",)),
    ("mbarrier.arrive.shared.b64 _, [%r1], 2;", "mbarrier.arrive", "mbarrier", ("b64",)),
    ("mbarrier.arrive.shared.b64 [%r1], 2;", "mbarrier.arrive", "mbarrier", ("b64",)),
    ("mbarrier.arrive.expect_tx.shared.b64 _, [%r1], 2;", "mbarrier.arrive.expect_tx", "mbarrier",
     ("b64",)),
    ("mbarrier.try_wait.parity.b64 %p1, [%r1], 0;", "mbarrier.try_wait.parity", "mbarrier",
     ("b64",)),
    ("cvt.f32.u32 %r1, %r2;", "cvt", "convert", ("f32", "u32")),
    ("cvt.pack.sat.u8.s32.b32 %r1, %r2, %r3, %r4;", "cvt.pack", "convert", ("u8", "s32", "b32")),
    ("bar.sync 0;", "bar.sync", "barrier", ()),
    ("bar.red.popc.u32 %r1, 0, %p1;", "bar.red.popc", "barrier", ("u32",)),
    ("cvta.to.global.u64 %rd1, %rd2;", "cvta.to", "memory", ("u64",)),
    ("st.bulk.shared::cta [%r6], 16, 0;", "st.bulk", "memory", ()),
    ("wgmma.fence.sync.aligned;", "wgmma.fence.sync", "wgmma", ()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "name", "family", "types"), CHOSEN)
def test_the_entry_of_an_instruction(
    text: str, name: str, family: str, types: tuple[str, ...]
) -> None:
    """That with most of its words."""
    found = chosen(text)
    assert (found.entry.name, found.entry.family, found.types) == (name, family, types)


OPTIONS = [
    ("ld.acquire.gpu.shared::cta.v2.u32 {%r1, %r2}, [%r3];",
     {"sem": "acquire", "scope": "gpu", "space": "shared", "vector": 2}),
    ("ld.param::entry.u32 %r1, [%rd1];", {"space": "param"}),
    ("ld.volatile.u32 %r1, [%rd1];", {"sem": "volatile"}),
    ("st.weak.global.L1::evict_first.u32 [%rd1], %r1;", {"sem": "weak", "space": "global"}),
    ("setp.lt.and.u32 %p1, %r1, %r2, %p2;", {"cmp": "lt", "op": "and"}),
    ("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];",
     {"sem": "release", "scope": "cluster", "space": "shared"}),
    ("add.rz.ftz.sat.f32 %r1, %r2, %r3;", {"rounding": "rz", "ftz": True, "sat": True}),
    ("add.u32 %r1, %r1, 1;", {}),
]  # fmt: skip


@pytest.mark.parametrize(("text", "options"), OPTIONS)
def test_modifiers_become_arguments(text: str, options: dict[str, object]) -> None:
    found = chosen(text)
    assert found.options == options


NONE = [
    "add.u32.u32 %r1, %r1, 1;", "add %r1, %r1, 1;", "add.u32 %r1, 1;", "add.u32 %r1, %r1, 1, 1;",
    "add.pred %p1, %p1, %p1;", "add.frob.u32 %r1, %r1, 1;", "add.shared.u32 %r1, %r1, 1;",
    "mul.u32 %r1, %r1, 1;", "setp.u32 %p1, %r1, 0;", "cvt.f32 %r1, %r1;",
    "cvt.f32.u32.u32 %r1, %r1;", "cvt.pack.sat.u8.s32.b32.b32 %r1, %r2, %r3, %r4;",
    "bar.sync.u32.u32 0;", "bar.sync 0, 32, 64;", "bar.sync;", "st.bulk.weak [%r6], 16;",
    "mbarrier.init.shared.b64.b64 [%r1], 1;", "mbarrier.arrive.shared.b64 _, [%r1], 2, 3;",
    "mbarrier.init.acquire.shared.b64 [%r1], 1;", "add.gtu.u32 %r1, %r1, 1;",
]  # fmt: skip


@pytest.mark.parametrize("text", NONE)
def test_what_is_no_instruction(text: str) -> None:
    with pytest.raises(PtxError, match=r"^PTX line 7: the emulator does not know '[\w.:]+'; it"):
        chosen(text)


SM_80 = "; compiled with -arch=sm_80, libraries do without it"
WORDS = [
    ("frob.u32 %r1;", "run `python -m phasebit ptx` for the list of those it knows"),
    ("elect.any %r1;", "it knows elect as elect.sync, with other types or modifiers"),
    ("mul.upper.u32 %r1, %r2, %r3;",
     "it knows mul as mul, mul.hi, mul.lo, mul.wide, with other types or modifiers"),
    ("mbarrier.frob;", "it knows mbarrier as mbarrier.arrive, mbarrier.arrive.expect_tx, "
     "mbarrier.arrive.noComplete, mbarrier.arrive_drop, mbarrier.arrive_drop.expect_tx, "
     "mbarrier.complete_tx, mbarrier.expect_tx, mbarrier.init, with other types or modifiers"),
    ("wgmma.frob;", "it knows wgmma as wgmma.commit_group.sync, wgmma.fence.sync, "
     "wgmma.mma_async.sp.sync, wgmma.mma_async.sync, wgmma.wait_group.sync, with other types or "
     "modifiers" + SM_80),
    ("tcgen05.cp.im2col::w;",
     "which pixels its halo has the PTX ISA (5.5.5.3) shows in figures only"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "hint"), WORDS)
def test_what_is_said_of_an_instruction_that_is_not_known(text: str, hint: str) -> None:
    with pytest.raises(PtxError) as refused:
        chosen(text)
    opcode = text.rstrip(";").split()[0]
    assert str(refused.value) == f"PTX line 7: the emulator does not know {opcode!r}; {hint}"


def test_letters_of_a_signature_are_types() -> None:
    found = chosen("cvt.pack.sat.u8.s32.b32 %r1, %r2, %r3, %r4;")
    assert [found.type_of(letter) for letter in ("x", "y", "b64")] == ["u8", "s32", "b64"]
    assert chosen("mul.wide.s32 %rd1, %r1, 1;").type_of("w") == "s64"


def test_options_are_filled_in_once() -> None:
    function = chosen("setp.lt.u32 %p1, %r1, %r2;").function
    assert function is chosen("setp.lt.u32 %p2, %r3, 7;").function
    assert function is filled(setp, cmp="lt", kind="u32") is not filled(setp, cmp="le", kind="u32")


def test_words_without_which_an_entry_is_none() -> None:
    assert chosen("setp.lt.and.u32 %p1, %r1, %r2, %p2;").entry.required == {"cmp"}
    assert chosen("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;").entry.required == {"mode"}
    assert chosen("add.f32 %r1, %r1, %r1;").entry.required == frozenset()


def test_a_result_that_is_read_too() -> None:
    updates = {entry.name for entry in entries() if entry.updates}
    assert updates == {"wgmma.mma_async.sync", "wgmma.mma_async.sp.sync"}
    assert {entry.mnemonic for entry in entries() if entry.accesses} == {"ld", "ldu", "st"}


def test_nothing_is_said_of_a_plain_instruction() -> None:
    told = dataclasses.asdict(PLAIN)
    assert told.pop("written") == "call" and not any(told.values())
    with pytest.raises(dataclasses.FrozenInstanceError):
        PLAIN.words = True  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        entries()[0].optional = 9  # type: ignore[misc]


@pytest.mark.parametrize(("text", "aligned"), [
    ("bar.sync 0;", True), ("barrier.sync 0;", False), ("barrier.sync.aligned 0;", True),
    ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%rd1, %rd2}, {%rd1}, {%rd1}, {%rd1, %rd2};",
     True),
    ("add.u32 %r1, %r1, 1;", False),
])  # fmt: skip
def test_all_threads_of_a_warp_execute_it_together(text: str, aligned: bool) -> None:
    instruction = one(text)
    assert select(instruction).entry.traits.is_aligned(instruction) is aligned
    assert not Traits(aligned="bar").is_aligned(one("barrier.sync 0;"))


def test_entries_stand_by_family_and_name() -> None:
    everything = entries()
    order = [*FAMILIES]
    keys = [(order.index(each.family), each.name) for each in everything]
    assert keys == sorted(keys) and len(everything) == sum(map(len, TABLE.values()))
    assert all(each.summary and "\n" not in each.summary for each in everything)


def test_a_line_of_the_list() -> None:
    lines = listing({"mul.wide": 240, "add": 1, "nothing": 5}).splitlines()
    assert lines[0] == "instruction                 PTX ISA        proof  what it does"
    assert lines[1] == "-- integer"
    by_name = {line.split()[0]: line for line in lines}
    assert by_name["mul.wide"][:52] == "mul.wide                    9.7.1.3          240  mu"
    assert by_name["mul.hi"][28:50] == "9.7.1.3            -  "
    assert by_name["tcgen05.shift"][28:50] == "9.7.16.9.3       ISA  "
    assert lines[-1].startswith(f"{len({e.name for e in entries()})} instructions; 2 compared")
    assert [line[3:] for line in lines if line.startswith("-- ")] == [
        name for name in FAMILIES if any(entry.family == name for entry in entries())
    ]  # fmt: skip
    assert set(FAMILIES) > BY_WORDS and agreed()["mul.wide"] > 1


def test_an_instruction_in_full() -> None:
    first, *rest = describe("mul.wide").split("\n\n")
    assert not rest
    head, *text = first.splitlines()
    assert head == "mul.wide  (x x -> w; types: s16 s32 u16 u32; PTX ISA 9.7.1.3)"
    assert text and all(line.startswith("  ") for line in text) and "modifiers" not in text[0]
    assert len(describe("mul").split("\n\n")) > 3
    shuffle = describe("shfl").splitlines()
    assert shuffle[0].endswith("-> b32 pred; types: b32; PTX ISA 9.7.9.6)")
    assert shuffle[1] == "  modifiers: .idx .up .down .bfly"
    assert "-> nothing; types: any; " in describe("bar.sync")
    assert types_of(chosen("cvt.f32.u32 %r1, %r2;").entry).count(" < ") == 1
    assert types_of(chosen("mov.u32 %r1, %r2;").entry) == "any"
