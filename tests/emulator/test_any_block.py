"""A mistake is the same in whichever block it is made: only the block's number is another.

Two programs stand in one kernel: one block runs the wrong one, the others the right one, each with
arrays of its own. What is found is what is found of the wrong one alone, said of that block.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from phasebit.emulator import Finding
from phasebit.emulator.errors import EmulatorError
from phasebit.emulator.numbers.swizzle import NONE
from phasebit.emulator.tensor_core.matrix_descriptors import encode
from phasebit.launching.launch import Module
from tests.emulator.test_async_overwrite import FENCE, MBARRIER, REGISTERS, TWICE, WARP
from tests.emulator.test_departed_lanes import AROUND, LEAVE, SHUFFLE
from tests.emulator.test_departed_lanes import KERNEL as DEPARTED
from tests.emulator.test_findings_engines import (
    EXPECT,
    GENERIC,
    LOAD,
    MISTAKES,
    MMA,
    PRODUCT,
    RELAY,
    WIDE,
)
from tests.emulator.test_wgmma_findings import MISTAKES as WGMMA
from tests.emulator.test_wgmma_findings import text as wgmma

BLOCKS = 3


def both(wrong: str, right: str, guilty: int) -> str:
    """One kernel of the two: the guilty block runs the first."""
    begin = re.search(r"(?s).*?\.entry.*?\{(?:\s*(?:\.reg|\.shared)[^;]*;)*", wrong)
    assert begin is not None and right.startswith(begin[0])
    rest = right[begin.end() :]
    for label in set(re.findall(r"\b([A-Za-z]\w*):(?!:)", rest)):
        rest = re.sub(rf"\b{label}\b", f"OTHER_{label}", rest)
    rest = re.sub(  # each other block has the arrays behind its own number, counted from 1
        r"ld\.param\.u64 (%rd\d), [^;]*;",
        lambda found: f"{found[0]} mov.u32 %other, %ctaid.x; add.u32 %other, %other, 1; "
                      f"mul.wide.u32 %else, %other, 4096; add.u64 {found[1]}, {found[1]}, %else;",
        rest,
    )  # fmt: skip
    return (
        f"{begin[0]} .reg .b32 %other; .reg .b64 %else; .reg .pred %innocent; mov.u32 %other, "
        f"%ctaid.x; setp.ne.u32 %innocent, %other, {guilty}; @%innocent bra RIGHT;"
        f"{wrong[begin.end() :].rstrip().removesuffix('}')} RIGHT: {rest}"
    )


def found(text: str, threads: int, blocks: int) -> list[Finding]:
    """What is found with two arrays, of 4 KiB for each block and one more."""
    values = np.zeros(1024 * (BLOCKS + 1), np.float32)
    (kernel,) = Module(text).kernels
    given = [values, values.copy()][: text.count("(.param") + text.count(", .param")]
    try:
        return list(Module(text)[kernel].launch(blocks, threads, given).findings)
    except EmulatorError as error:
        return [*error.findings, error.finding]


def of_places(program: tuple[str, int, dict[str, str]], edits: dict[str, str]) -> str:
    return "\n".join([program[0], *(program[2] | edits).values()])


def twice(between: str) -> str:
    return TWICE.replace("BETWEEN", between)


AT = PRODUCT[2] | {
    "fills": "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {%r8};",
    "reads": "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r10}, [%r9];",
    "stored": "tcgen05.wait::st.sync.aligned;", "loaded": "tcgen05.wait::ld.sync.aligned;",
}  # fmt: skip
HALVES = LOAD.replace("256", "128")
HALVES += HALVES.replace("[tile]", "[tile+128]").replace("[%rd1]", "[%rd1+128]")
EDITS = {
    "sums read before the commit": (PRODUCT, {"wait": "bar.sync 0;"}),
    "a load right after a store": (
        PRODUCT, {"a there": AT["fills"] + AT["reads"] + AT["stored"] + AT["loaded"]}
    ),
    "a store right after a load": (
        PRODUCT, {"a there": AT["fills"] + AT["stored"] + AT["reads"] + AT["fills"] + AT["loaded"]
                  + AT["stored"]}
    ),
    "cells that nobody has written": (PRODUCT, {"a there": AT["reads"] + AT["loaded"]}),
    "columns that stay": (PRODUCT, {"free": ""}),
    "columns given back while others read": (PRODUCT, {"read": "@!%p4 bra END;"}),
    "a product by all threads of a warp": (
        PRODUCT, {"first": "@!%p4 bra ON; " + MMA.format(WIDE, "%p5")[5:] + " ON:"}
    ),
    "another warp's quarter": (PRODUCT, {"result": AT["result"].replace("[%r9]", "[%r7]")}),
    "a generic address": (PRODUCT, {"commit": GENERIC}),
    "rows on each other": (
        PRODUCT, {"a": AT["a"].replace(str(encode(0, 128, 256, NONE, "tcgen05")),
                                       str(encode(0, 128, 128, NONE, "tcgen05")))}
    ),
    "no fence before the product": (PRODUCT, {"fence": "bar.sync 0; ld.shared.u32 %r5, [at];"}),
    "a store over a tile that a product may read": (
        PRODUCT, {"third": "bar.sync 0; st.shared.u32 [tile], %r8;"}
    ),
    "a descriptor that is none": (PRODUCT, {"first": MMA.format(WIDE | 1 << 12, "%p5")}),
    "an arrival too many": (RELAY, {"wait": ""}),
    "a block that leaves before its copy has read": (
        RELAY, {"stored": "", "expect again": "", "again": "", "wait again": "", "gone": "",
                "passed": ""}
    ),
    "what a copy may not have written yet": (
        RELAY, {"stored": "ld.global.f32 %f2, [%rd2]; " + RELAY[2]["stored"]}
    ),
    "a store over what a copy may read": (
        RELAY, {"commit": RELAY[2]["commit"] + " bar.sync 0; st.shared.f32 [%r3], %f1;"}
    ),
    "a barrier that may not be there": (RELAY, {"barrier": "", "made": "", "global fence": ""}),
    "a load of what a copy may not have written": (
        RELAY, {"wait again": "ld.shared.f32 %f1, [%r3];" + RELAY[2]["wait again"]}
    ),
    "bytes announced too late": (
        RELAY, {"expect": EXPECT.replace("256", "128"), "load": HALVES,
                "later": "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 128;"}
    ),
    "bytes that nobody announced": (
        RELAY, {"expect again": "@%p1 mbarrier.arrive.shared::cta.b64 _, [full];",
                "wait again": "", "gone": ""}
    ),
    "a copy of what nobody has written": (
        RELAY, dict.fromkeys(("add", "fence", "wait", "load", "expect", "expect again", "again",
                              "wait again"), "")
    ),
    "shared memory past its end": (RELAY, {"add": "ld.shared.f32 %f1, [%r3+5000];"}),
    "shared memory askew": (RELAY, {"add": "ld.shared.f32 %f1, [%r3+2];"}),
    "no array at all": (RELAY, {"made": "mov.b64 %rd4, 64; st.global.f32 [%rd4], %f1;"}),
    "an array past its end": (RELAY, {"made": "st.global.f32 [%rd4+16384], %f1;"}),
    "an array askew": (RELAY, {"made": "st.global.f32 [%rd4+1], %f1;"}),
    "a race in shared memory": (RELAY, {"made": "st.shared.u32 [tile+4], %r1;"}),
    "a race in global memory": (RELAY, {"made": "st.global.u32 [%rd2+12], %r1;"}),
    "an atomic beside a load": (
        RELAY, {"made": "setp.lt.u32 %p3, %r1, 32; @%p3 atom.global.add.u32 %r4, [%rd2], 1; "
                        "ld.global.u32 %r4, [%rd2];"}
    ),
    "a barrier that a warp goes around": (
        RELAY, {"barrier": "setp.lt.u32 %p3, %r1, 32; @%p3 bra ON; ret; ON: bar.sync 0;"}
    ),
    "a mask without oneself": (RELAY, {"barrier": "bar.sync 0; bar.warp.sync 0xfffffffe;"}),
    "a phase that nobody has seen": (
        RELAY, {"init": "@%p1 mbarrier.init.shared::cta.b64 [full], 64;",
                "barrier": "bar.sync 0; mbarrier.arrive.shared::cta.b64 _, [full]; bar.sync 0; "
                           "mbarrier.arrive.shared::cta.b64 _, [full]; ret;"}
    ),
    "a volatile store that a copy reads": (
        RELAY, {"add": "@!%p1 st.volatile.shared.f32 [%r3], %f1;", "added": ""}
    ),
    "a race of one instruction": (
        RELAY, {"made": "setp.lt.u32 %p3, %r1, 32; @%p3 bra ONE; bar.sync 2, 32; bra ON; ONE: "
                        "bar.sync 1, 32; ON: setp.eq.u32 %p4, %r1, 37; "
                        "@%p1 bra IN; @!%p4 bra OUT; IN: st.shared.u32 [tile+4], %r1; OUT:"}
    ),
    "a barrier made by all": (
        RELAY, {"init": "mbarrier.init.shared::cta.b64 [full], 1;"}
    ),
}  # fmt: skip
FOUND = {
    "a load right after a store": "missing-tcgen05-wait",
    "a store right after a load": "missing-tcgen05-wait",
    "cells that nobody has written": "uninitialised-tensor-memory " * 2,
    "columns that stay": "tensor-memory-leak",
    "columns given back while others read": "race",
    "a product by all threads of a warp":
        "repeated-tensor-operation missing-tcgen05-commit missing-tcgen05-commit",
    "another warp's quarter": "wrong-tensor-quarter",
    "a generic address": "generic-shared-address",
    "rows on each other": "wrong-descriptor " * 4,
    "no fence before the product": "missing-proxy-fence missing-proxy-fence",
    "a descriptor that is none": "invalid-operation",
    "an arrival too many": "missing-mbarrier-wait missing-mbarrier-wait too-many-arrivals",
    "a block that leaves before its copy has read": "bulk-in-flight-at-exit",
    "what a copy may not have written yet": "missing-bulk-wait race",
    "a store over what a copy may read":
        "bulk-source-overwritten missing-proxy-fence race-equal-stores",
    "a barrier that may not be there": "race",
    "a load of what a copy may not have written": "missing-mbarrier-wait",
    "bytes announced too late": "late-expect-tx",
    "bytes that nobody announced": "unannounced-bytes block-leaves-too-early",
    "a copy of what nobody has written": "uninitialised-read",
    "shared memory past its end": "out-of-bounds", "shared memory askew": "misaligned-access",
    "no array at all": "out-of-bounds", "an array past its end": "out-of-bounds",
    "an array askew": "misaligned-access", "an atomic beside a load": "race-beside-atomics",
    "a volatile store that a copy reads":
        "race-beside-atomics missing-proxy-fence race-equal-stores phase-may-be-missed",
    "a race of one instruction": "race", "masks that are not the same": "wrong-member-mask",
    "a value of a lane that has left": "shuffle-from-departed",
    "a barrier that a warp goes around and leaves": "divergent-barrier",
    "lanes that go around a barrier of their warp": "divergent-sync",
    "warps that ask for other numbers": "setmaxnreg-mismatch",
    "more registers than there are": "setmaxnreg-waits-for-ever",
    "one warp that asks alone": "setmaxnreg-mismatch",
    "a mask without oneself": "wrong-member-mask",
    "a phase that nobody has seen": "mbarrier-phase-unseen",
    "a barrier made by all": "mbarrier-initialised-again",
}  # fmt: skip
AT_THE_END = ("tensor-memory-leak", "setmaxnreg-waits-for-ever")
PROGRAMS = {
    **{each.name: (of_places(each.program, each.edits), of_places(each.program, {}),
                   each.program[1]) for each in MISTAKES
       if each.name not in ("nothing in the bulk group", "a commit for pairs")},
    **{each.name: (wgmma(each.edits, each.a)[0], wgmma({}, WGMMA[0].a)[0], 256)
       for each in WGMMA},
    **{name: (of_places(program, edits), of_places(program, {}), program[1])
       for name, (program, edits) in EDITS.items()},
    "a slot filled again behind a warp's barrier": (twice(WARP), twice(FENCE + WARP), 32),
    **{name: (DEPARTED.replace("BODY", body), DEPARTED.replace("BODY", ""), 64)
       for name, body in {
           "a value of a lane that has left":
               LEAVE + SHUFFLE.replace("DELTA", "8").replace("MASK", "0xffffffff"),
           "a barrier that a warp goes around and leaves": AROUND.replace("BARRIER", "bar.sync 0;"),
           "lanes that go around a barrier of their warp":
               "setp.eq.u32 %p1, %r1, 37; @%p1 bra ON; bar.warp.sync 0xffffffff; "
               "add.u32 %r2, %r2, 2; ON: add.u32 %r2, %r2, 1; @%p1 ret; add.u32 %r2, %r2, 3;",
           "masks that are not the same":
               "setp.eq.u32 %p1, %r1, 37; selp.u32 %r4, 0x20, 0xffffffff, %p1; "
               "bar.warp.sync %r4;",
           "a mask without oneself":
               "setp.eq.u32 %p1, %r1, 37; selp.u32 %r4, 0x10, 0xffffffff, %p1; "
               "bar.warp.sync %r4;",
           "a barrier with two counts":
               "setp.lt.u32 %p1, %r1, 32; @%p1 bra A; bar.sync 1, 64; bra B; A: bar.arrive 1, 64; "
               "bar.arrive 1, 64; B: add.u32 %r2, %r2, 1;",
       }.items()},
    **{name: (text, REGISTERS.replace("FIRST", "4"), threads) for name, text, threads in (
        ("warps that ask for other numbers", REGISTERS.replace("FIRST", "7"), 256),
        ("more registers than there are", REGISTERS.replace("FIRST", "0"), 384),
        ("one warp that asks alone", REGISTERS.replace("setp.ge.u32 %p1, %r2, FIRST",
         "setp.ne.u32 %p1, %r2, 6").replace("setmaxnreg.inc.sync.aligned.u32 232;", ""), 256),
    )},
    "a slot written and filled again": (
        twice("st.shared.u32 [%r4], %r6; bar.sync 0;"), twice(MBARRIER), 128
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_number_of_the_block_is_all_that_differs(name: str) -> None:
    wrong, right, threads = PROGRAMS[name]
    alone = found(both(wrong, right, 0), threads, 1)
    assert alone
    if name in FOUND:
        assert sorted(each.rule for each in alone) == sorted(FOUND[name].split())
    for guilty in range(BLOCKS):
        together = found(both(wrong, right, guilty), threads, BLOCKS)
        said = [(each.rule, each.message.replace("block 0", f"block {guilty}")) for each in alone]
        assert sorted((each.rule, each.message) for each in together) == sorted(said)
        for each in together:  # a fault says where in its sentence; some show when a block ends
            assert each.ends or each.at in each.places or each.rule in AT_THE_END
