"""What the table says of all instructions at once: what their words mean, what is assumed without.

A word with a number stands for that number; another is a switch. How an instruction is treated
beyond what it computes follows from its traits, which few have.
"""

from __future__ import annotations

import dataclasses
import inspect
import re

import phasebit.emulator.ops  # noqa: F401, it fills the table
from phasebit.emulator.ptx.table import Entry, entries

ALL = entries()

THERE_ARE = {
    "integer":
        "abs add*2 add.cc addc addc.cc bfe bfi bfind bmsk brev clz div dp2a dp4a fns "
        "mad.cc mad.hi mad.lo mad.wide mad24 madc madc.cc max*2 min*2 mul.hi mul.lo "
        "mul.wide mul24 neg popc rem sad sub sub.cc subc subc.cc szext",
    "logic": "and cnot lop3 lop3.and lop3.or not or prmt shf shl shr xor",
    "floating":
        "abs add*2 copysign cos.approx div ex2.approx fma*2 lg2.approx mad max*2 min*2 "
        "mul*2 neg rcp rcp.approx.ftz rsqrt rsqrt.approx.ftz sin.approx sqrt sub*2 "
        "tanh.approx testp",
    "half": "abs add*2 ex2.approx fma*2 max min mul neg set setp sub*2 tanh.approx",
    "compare": "selp set setp slct",
    "convert": "cvt*12 cvt.pack cvt.rs*2",
    "move": "getctarank mapa mov",
    "memory":
        "alloca applypriority createpolicy.cvt.L2 createpolicy.fractional "
        "createpolicy.range cvta cvta.to discard isspacep ld ldu prefetch prefetchu st "
        "st.bulk stackrestore stacksave",
    "atomic":
        "atom.add*2 atom.and atom.cas atom.dec atom.exch atom.inc atom.max*2 atom.min*2 "
        "atom.or atom.xor red.add*2 red.and red.dec red.inc red.max*2 red.min*2 red.or "
        "red.xor",
    "barrier":
        "bar.arrive bar.red.and*2 bar.red.or*2 bar.red.popc*2 bar.sync bar.warp.sync "
        "barrier.arrive barrier.cluster.arrive barrier.cluster.wait barrier.red.and*2 "
        "barrier.red.or*2 barrier.red.popc*2 barrier.sync brkpt fence "
        "fence.mbarrier_init fence.proxy griddepcontrol.launch_dependents "
        "griddepcontrol.wait membar nanosleep pmevent setmaxnreg.dec setmaxnreg.inc",
    "mbarrier":
        "mbarrier.arrive mbarrier.arrive.expect_tx mbarrier.arrive.noComplete "
        "mbarrier.arrive_drop mbarrier.arrive_drop.expect_tx mbarrier.complete_tx "
        "mbarrier.expect_tx mbarrier.init mbarrier.inval mbarrier.pending_count "
        "mbarrier.test_wait mbarrier.test_wait.parity mbarrier.try_wait "
        "mbarrier.try_wait.parity",
    "cp_async":
        "cp.async.ca cp.async.cg cp.async.commit_group cp.async.mbarrier.arrive "
        "cp.async.wait_all cp.async.wait_group",
    "bulk":
        "cp.async.bulk.commit_group cp.async.bulk.global.shared::cta.bulk_group "
        "cp.async.bulk.prefetch.L2.global "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes "
        "cp.async.bulk.wait_group cp.reduce.async.bulk.global.shared::cta.bulk_group "
        "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes",
    "bulk_tensor":
        "cp.async.bulk.prefetch.tensor.L2.global "
        "cp.async.bulk.prefetch.tensor.L2.global.im2col "
        "cp.async.bulk.tensor.global.shared::cta.bulk_group "
        "cp.async.bulk.tensor.global.shared::cta.bulk_group.im2col_no_offs "
        "cp.async.bulk.tensor.shared::cluster.global.mbarrier::complete_tx::bytes "
        "cp.async.bulk.tensor.shared::cluster.global.mbarrier::complete_tx::bytes.im2col "
        "cp.async.bulk.tensor.shared::cluster.global.mbarrier::complete_tx::bytes.im2col."
        "multicast::cluster "
        "cp.async.bulk.tensor.shared::cluster.global.mbarrier::complete_tx::bytes."
        "multicast::cluster "
        "cp.async.bulk.tensor.shared::cta.global.mbarrier::complete_tx::bytes "
        "cp.async.bulk.tensor.shared::cta.global.mbarrier::complete_tx::bytes.im2col "
        "cp.reduce.async.bulk.tensor.global.shared::cta.bulk_group "
        "cp.reduce.async.bulk.tensor.global.shared::cta.bulk_group.im2col_no_offs",
    "tensormap":
        "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic "
        "tensormap.replace*2",
    "remote": "red.async.mbarrier::complete_tx::bytes st.async.mbarrier::complete_tx::bytes*2",
    "cluster_launch":
        "clusterlaunchcontrol.query_cancel "
        "clusterlaunchcontrol.query_cancel.get_first_ctaid.v4 "
        "clusterlaunchcontrol.query_cancel.is_canceled "
        "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes "
        "clusterlaunchcontrol.try_cancel.async.mbarrier::complete_tx::bytes.multicast::cluster::all",
    "warp":
        "activemask elect.sync match.all.sync match.any.sync redux.sync*2 shfl.sync "
        "vote.sync.all vote.sync.any vote.sync.ballot vote.sync.uni",
    "matrix":
        "ldmatrix.sync.m16n16.trans ldmatrix.sync.m16n16.trans.b8x16 "
        "ldmatrix.sync.m8n16.b8x16 ldmatrix.sync.m8n8 mma.sp.sync.row.col "
        "mma.sp::ordered_metadata.sync.row.col mma.sync.m8n8k4.col mma.sync.m8n8k4.row "
        "mma.sync.m8n8k4.row.col mma.sync.row.col*2 movmatrix.sync.m8n8.trans "
        "stmatrix.sync.m16n8.trans stmatrix.sync.m8n8 wmma.load.sync*2 wmma.mma.sync*2 "
        "wmma.store.d.sync*2",
    "mma_narrow": "mma.sync.row.col.block_scale mma.sync.row.col.kind::f8f6f4",
    "wgmma":
        "wgmma.commit_group.sync wgmma.fence.sync wgmma.mma_async.sync*2 "
        "wgmma.wait_group.sync",
    "wgmma_sparse": "wgmma.mma_async.sp.sync*2",
    "tcgen05":
        "tcgen05.alloc.sync tcgen05.commit.mbarrier::arrive::one "
        "tcgen05.commit.mbarrier::arrive::one.multicast::cluster tcgen05.cp "
        "tcgen05.cp.b8x16 tcgen05.dealloc.sync tcgen05.dealloc.sync.cta_group::2 "
        "tcgen05.fence::after_thread_sync tcgen05.fence::before_thread_sync "
        "tcgen05.ld.red.sync*2 tcgen05.ld.sync*2 tcgen05.mma "
        "tcgen05.relinquish_alloc_permit.sync tcgen05.st.sync*2 tcgen05.wait::ld.sync "
        "tcgen05.wait::st.sync",
    "tcgen05_scaled": "tcgen05.mma.block_scale",
    "tcgen05_ws": "tcgen05.mma.ws",
    "tcgen05_sparse": "tcgen05.mma.sp tcgen05.mma.sp.block_scale tcgen05.mma.ws.sp",
    "tcgen05_shift": "tcgen05.shift",
}  # fmt: skip
"""Family -> its instructions; ``*2``: in two forms, with other types or operands."""


def test_the_instructions_that_there_are() -> None:
    found = {family: {} for family in THERE_ARE}  # type: ignore[var-annotated]
    for entry in ALL:
        found[entry.family][entry.name] = found[entry.family].get(entry.name, 0) + 1
    for family, names in THERE_ARE.items():
        wanted = {}
        for word in names.split():
            name, _, count = word.partition("*")
            wanted[name] = int(count or 1)
        assert found[family] == wanted


def test_a_word_switches_something_on_but_for_these() -> None:
    switches = {(word, value) for entry in ALL for word, (_, value) in entry.options.items()
                if isinstance(value, bool)}  # fmt: skip
    assert {word for word, value in switches if not value} == {"clamp", "full", "lo", "r"}
    assert {word for word, value in switches if value} == {
        "NaN", "abs", "approx", "ashift", "down", "ftz", "hi", "l", "noftz", "noinc", "oob",
        "pack::16b", "popc", "read", "relu", "sat", "satfinite", "shiftamt", "sync", "trans",
        "unpack::16b", "wrap", "xorsign",
    }  # fmt: skip


ODD = {"hi": 2, "lo": 0, "tensormap": 2, "get_first_ctaid::x": 0, "get_first_ctaid::y": 1,
       "get_first_ctaid::z": 2}  # fmt: skip


def test_a_word_with_a_number_stands_for_it() -> None:
    for entry in ALL:
        for word, (_, value) in entry.options.items():
            numbers = [int(n) for n in re.findall(r"\d+", word)]
            if isinstance(value, tuple):  # m64n8k16: wgmma's n and k
                assert numbers == [64, *value], word
            elif isinstance(value, int) and not isinstance(value, bool):
                assert value == (ODD[word] if word in ODD else numbers[0]), word


def test_the_counts_that_there_are() -> None:
    by_name = {(entry.name, name): set() for entry in ALL for name, _ in entry.options.values()}  # type: ignore[var-annotated]
    for entry in ALL:
        for name, value in entry.options.values():
            by_name[entry.name, name].add(value)
    assert by_name["wgmma.mma_async.sync", "shape"] == {
        (n, k) for n in range(8, 257, 8) for k in (8, 16, 32, 64)
    }
    assert by_name["tcgen05.ld.sync", "times"] == {1, 2, 4, 8, 16, 32, 64, 128}
    assert by_name["ldmatrix.sync.m8n8", "count"] == {1, 2, 4}
    assert by_name["ldmatrix.sync.m16n16.trans", "count"] == {1, 2}
    assert by_name["ld", "vector"] == by_name["st", "vector"] == {2, 4, 8}
    tensor = "cp.async.bulk.tensor.shared::cluster.global.mbarrier::complete_tx::bytes"
    assert by_name[tensor, "rank"] == {1, 2, 3, 4, 5} and by_name[tensor, "group"] == {1, 2}
    store = "cp.async.bulk.tensor.global.shared::cta.bulk_group"
    assert {name for entry, name in by_name if entry == store} == {"rank", "mode"}


def places(entry: Entry) -> list[inspect.Parameter]:
    """The parameters for operands."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    given = inspect.signature(entry.function).parameters.values()
    found = [each for each in given if each.kind in kinds and each.name not in ("g", "dest")]
    return found[1:] if entry.updates else found


APART = {"tcgen05.ld.sync", "tcgen05.commit.mbarrier::arrive::one",
         "tcgen05.commit.mbarrier::arrive::one.multicast::cluster"}  # fmt: skip
"""One function for two entries, of which one has an operand more."""
MAY_LACK = {
    "ld": 1, "ldu": 1, "st": 1, "prefetch": 1, "prefetchu": 1, "applypriority": 1, "discard": 1,
    "createpolicy.fractional": 1, "fence.proxy": 2, "tcgen05.mma": 2, "tcgen05.mma.sp": 2,
}  # fmt: skip


def test_operands_that_may_be_left_out_are_those_with_a_default() -> None:
    for entry in ALL:
        given = places(entry)
        if entry.name.startswith("wgmma.mma_async"):
            assert entry.optional == (0 if entry.types[0] == {"s32"} else 2), entry.name
        elif entry.name in MAY_LACK:
            assert entry.optional == MAY_LACK[entry.name], entry.name
        elif entry.name in APART:
            assert entry.optional == 0, entry.name
        else:
            lacking = [each for each in given if each.default is not each.empty]
            assert (len(entry.arguments), entry.optional) == (len(given), len(lacking)), entry.name


def having(trait: str, value: object = True) -> set[str]:
    return {entry.name for entry in ALL if getattr(entry.traits, trait) == value}


BARRIERS = {f"{word}.{what}" for word in ("bar", "barrier")
            for what in ("sync", "arrive", "red.popc", "red.and", "red.or")}  # fmt: skip
OPERATIONS = ("add", "and", "dec", "inc", "max", "min", "or", "xor")
ATOMICS = {"atom.cas", "atom.exch"} | {f"{word}.{op}" for word in ("atom", "red")
                                       for op in OPERATIONS}  # fmt: skip


def test_how_instructions_are_treated() -> None:
    assert having("written", "load") == {"ld", "ldu"} and having("written", "store") == {"st"}
    assert having("written", "move") == {"mov"}
    assert having("untyped") == {"ld", "ldu", "mov", "selp", "st"}
    assert having("words") == {"ld", "ldu", "st"} | ATOMICS
    assert having("matrix") == {entry.name for entry in ALL if entry.mnemonic in (
        "ldmatrix", "stmatrix")}  # fmt: skip
    assert having("aligned", "bar") == BARRIERS and having("aligned", "") | BARRIERS == {
        entry.name for entry in ALL
    }
    assert having("warp_group") == {entry.name for entry in ALL if entry.mnemonic == "wgmma"}
    assert having("multiplies") == {"wgmma.mma_async.sync", "wgmma.mma_async.sp.sync"}
    assert having("registers", "filled later") == {"tcgen05.ld.sync", "tcgen05.ld.red.sync"}
    assert having("registers", "awaited") == {"tcgen05.wait::ld.sync"}
    assert having("tensor_fence", "before") == {"tcgen05.fence::before_thread_sync"}
    assert having("tensor_fence", "after") == {"tcgen05.fence::after_thread_sync"}
    assert having("sees_refusal") == {"clusterlaunchcontrol.query_cancel.is_canceled"}
    assert having("sees_grouping") == {"activemask"}
    assert having("allocates") == {"tcgen05.alloc.sync"} and having("grows") == {"alloca"}
    assert having("unnoticed") == {
        "bar.sync", "barrier.sync", "bar.warp.sync", "fence", "fence.mbarrier_init", "fence.proxy",
        "griddepcontrol.wait", "mbarrier.test_wait", "mbarrier.test_wait.parity",
        "mbarrier.try_wait", "mbarrier.try_wait.parity", "membar", "nanosleep",
    }  # fmt: skip
    assert {entry.name for entry in ALL if entry.whole} == {
        "tcgen05.alloc.sync", "tcgen05.dealloc.sync.cta_group::2",
    }  # fmt: skip
    named = {field.name for field in dataclasses.fields(ALL[0].traits)}
    assert named == {
        "written", "untyped", "words", "matrix", "aligned", "warp_group", "multiplies", "registers",
        "tensor_fence", "sees_refusal", "sees_grouping", "unnoticed", "allocates", "grows",
        "check", "engine",
    }  # fmt: skip


def test_whose_asynchronous_work_it_is() -> None:
    engines = {entry.family: entry.traits.engine for entry in ALL}
    tensor = {family for family in engines if family.startswith(("wgmma", "tcgen05"))}
    assert {family: engine for family, engine in engines.items() if engine} == {
        "cp_async": "threads", "bulk": "copies", "bulk_tensor": "copies", "remote": "remote",
        "cluster_launch": "launches", **dict.fromkeys(tensor, "tensor cores"),
    }  # fmt: skip


ASSUMED = {
    "align": 8, "apart": 0, "count": 1, "group": 1, "level": 2, "narrow": 0, "negate_a": 1,
    "negate_b": 1, "vector": 1,
}  # fmt: skip
"""Numbers that count where no word says another."""
ALWAYS = {("cvt_pack_sat", "sat"), ("cvt_to_short", "satfinite"), ("cvt_half_to_short",
          "satfinite"), ("cvt_stochastic_to_short", "satfinite"), ("setmaxnreg_inc", "sync"),
          ("setmaxnreg_dec", "sync"), ("cp_fenceproxy", "sync")}  # fmt: skip
"""Switches that are on unless something is said: the instruction has that word in every form."""


def test_nothing_is_switched_on_that_no_word_asks_for() -> None:
    for function in {entry.function for entry in ALL}:
        for each in inspect.signature(function).parameters.values():
            if isinstance(each.default, bool):
                always = (function.__name__, each.name) in ALWAYS
                assert each.default is always, (function, each.name)
            elif isinstance(each.default, int):
                assert each.default == ASSUMED[each.name], (function, each.name)
            else:
                assert each.default in (each.empty, None) or isinstance(each.default, str)


def test_words_without_which_there_is_no_such_instruction() -> None:
    required = {(entry.name, name) for entry in ALL for name in entry.required}
    assert {name for entry, name in required if entry in ("shf", "mul24", "mad24", "dp2a")} == {
        "left", "wrap", "high",
    }  # fmt: skip
    for name, words in {"setp": {"cmp"}, "shfl.sync": {"mode"}, "testp": {"what"},
                        "mad.cc": {"high"}, "madc": {"high"}, "redux.sync": {"op"},
                        "tcgen05.shift": {"down"},
                        "wgmma.mma_async.sync": {"shape"}}.items():  # fmt: skip
        assert {word for entry, word in required if entry == name} == words, name


WHOLE = "u16 s16 u32 s32 u64 s64"
TYPES = {
    "atom.exch": ["b32 b64 b128"], "atom.cas": ["b16 b32 b64 b128"], "xor": ["b16 b32 b64 pred"],
    "shr": [f"{WHOLE} b16 b32 b64"], "selp": [f"{WHOLE} b16 b32 b64 f16 bf16 f32 f64"],
    "match.any.sync": ["b32 b64"], "mul.wide": ["u16 s16 u32 s32"],
    "mma.sp.sync.row.col": ["f32 f16 s32", "f16 bf16 tf32 e4m3 e5m2 s8 u8 s4 u4"],
    "wmma.store.d.sync": ["f16 f32 s32", "f64"],
    "wmma.load.sync": ["f16 bf16 tf32 f32 s8 u8 s32", "f64"],
    "cp.reduce.async.bulk.global.shared::cta.bulk_group":
        ["f16 bf16 b32 u32 s32 b64 u64 s64 f32 f64"],
}  # fmt: skip
"""The types that some instructions take, of each form and each type that it names."""
SHORT = "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2"
CVT = [
    ("u8 s8 u16 s16 u32 s32 u64 s64", "u8 s8 u16 s16 u32 s32 u64 s64"),
    ("u8 s8 u16 s16 u32 s32 u64 s64", "f16 bf16 f32 f64"),
    ("f16 bf16 f32 f64", "u8 s8 u16 s16 u32 s32 u64 s64"), ("f16 bf16 f32 f64", "f16 bf16 f32 f64"),
    ("f16x2 bf16x2", "f32"), ("tf32", "f32"), (SHORT, "f32"), ("e4m3x2 e5m2x2", "f16x2 bf16x2"),
    ("f16x2", SHORT), ("ue8m0x2", "f32"), ("ue8m0x2", "bf16x2"), ("bf16x2", "ue8m0x2"),
]  # fmt: skip


def test_the_types_that_an_instruction_takes() -> None:
    for name, wanted in TYPES.items():
        taken = [types for entry in ALL if entry.name == name for types in entry.types]
        assert {frozenset(each.split()) for each in wanted} <= set(taken), name
        assert set(taken) == {frozenset(each.split()) for each in wanted} or "mma" in name, name
    taken = [entry.types for entry in ALL if entry.name == "cvt"]
    assert sorted(map(sorted, (map(sorted, each) for each in taken))) == sorted(  # type: ignore[arg-type]
        sorted(map(sorted, (each.split() for each in pair))) for pair in CVT
    )
