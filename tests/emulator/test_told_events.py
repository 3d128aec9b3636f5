"""What observers are told of each kind of instruction, in order: the event, who, and the words."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import observing
from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver, ThreadCopyObserver
from phasebit.emulator.machine.barrier_sites import MbarrierObserver
from phasebit.emulator.machine.cluster import ClusterObserver
from phasebit.emulator.machine.group import Group
from phasebit.emulator.machine.launch_observer import LaunchObserver
from phasebit.emulator.machine.named_barriers import BlockBarrierObserver
from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
from phasebit.emulator.tensor_core.warpgroups import WarpGroupObserver
from phasebit.launching.launch import Module
from tests.emulator.tensor_kernels import Gemm
from tests.emulator.test_tcgen05_ws import Weights

KINDS = (LaunchObserver, MbarrierObserver, BulkCopyObserver, ThreadCopyObserver,
         BlockBarrierObserver, ClusterObserver, TensorObserver, WarpGroupObserver)  # fmt: skip


class Recorder:
    """Hears every event of these observers but those of threads that go their ways."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.without = {"starts", "ends", "leaves", "gathered", "divides", "enters", "ran", "gone"}


def _hear(name: str) -> Any:
    def heard(self: Recorder, *given: Any) -> None:
        words = []
        for each in given:
            if isinstance(each, Group):
                words.append(f"{each.n} from {int(each.lanes[0])}")
            elif isinstance(each, str | bool | int):
                words.append(str(each))
            elif isinstance(each, np.ndarray) and each.ndim == 1:
                words.append(f"[{len(each)}]")
            elif isinstance(each, list):
                words.append(f"{len(each)} of them")
        if name not in self.without:
            self.heard.append(" ".join([name, *words]))

    return heard


for kind in KINDS:
    for event in vars(kind):
        if inspect.isfunction(getattr(kind, event)) and not event.startswith("_"):
            setattr(Recorder, event, _hear(event))

KERNEL = """.version 9.0\n.target sm_100a\n.address_size 64
.visible .entry k(.param .u64 p)
{
    .shared .align 128 .b8 tile[1024]; .shared .align 8 .b64 full; .shared .align 4 .b32 slot;
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b64 %d<9>;
    ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32;
    shl.b32 %r2, %r1, 4; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; cvt.u64.u32 %rd2, %r2;
    add.u64 %rd2, %rd1, %rd2;
    BODY
    ret;
}
"""


def heard(body: str, threads: int = 64, **options: Any) -> list[str]:
    recorder = Recorder()
    with observing(recorder):
        Module(KERNEL.replace("BODY", body))["k"].launch(
            1, threads, [np.zeros(1024, np.uint32)], check=False, schedule="late", **options
        )  # fmt: skip
    return recorder.heard


INIT = "@%p1 mbarrier.init.shared.b64 [full], COUNT; "
READY = ["operated 1 from 0", "initialises 1 from 0 [1]"]
BAR = ["syncs_block 64 from 0", "passes_barrier 64 from 0"]
WAIT = "L0: mbarrier.try_wait.parity.shared.b64 %p4, [full], 0; @!%p4 bra L0; "
ALLOC = "@!%p2 bra X; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32; "
ALLOC += "ld.shared.u32 %r4, [slot]; "
FREE = "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r4, 32; X:"
ALLOCATED = ["requests_columns 32 from 0 0 32 0", "allocated 32 from 0", "wrote_address 32 from 0",
             "asks_for_columns 32 from 0 1"]  # fmt: skip
CASES: dict[str, tuple[str, list[str]]] = {
    "bar.sync": ("bar.sync 0;", BAR),
    "bar.arrive": ("@%p2 bra X; bar.arrive 1, 64; bra Y; X: bar.sync 1, 64; Y:", [
        "joins_barrier 32 from 32", "syncs_block 32 from 0", "joins_barrier 32 from 0",
        "opens_barrier [64] 1 of them 1 of them True",
    ]),
    "fences": ("bar.warp.sync -1; fence.acq_rel.cluster; membar.gl; membar.cta; fence.sc.sys; "
               "fence.mbarrier_init.release.cluster; griddepcontrol.wait; fence.proxy.async; "
               "fence.proxy.async.shared::cta;", [
        "syncs_warp 64 from 0", "fences 64 from 0 cluster acq_rel", "fences 64 from 0 gpu sc",
        "fences 64 from 0 cta sc", "fences 64 from 0 sys sc", "fences_barriers 64 from 0",
        "waits_for_grids 64 from 0", "fences_async 64 from 0 ", "fences_async 64 from 0 shared",
    ]),
    "registers": ("setmaxnreg.inc.sync.aligned.u32 24; setmaxnreg.dec.sync.aligned.u32 256;", [
        "sets_registers 64 from 0 inc 24", "sets_registers 64 from 0 dec 256",
    ]),
    "arrive and wait": (INIT.replace("COUNT", "64") + "bar.sync 0; mbarrier.arrive.release.cta."
                        "shared.b64 %d1, [full]; " + WAIT + "@%p1 mbarrier.inval.shared.b64 "
                        "[full];", [
        *READY, *BAR, "arrives_at 64 from 0 full", "arrives 64 from 0 [64] release cta",
        "operated 64 from 0", "completes", "tests 64 from 0 [64] acquire cta",
        "waits 64 from 0 False", "passes 64 from 0", "operated 1 from 0",
        "invalidates 1 from 0 [1]",
    ]),
    "bytes": (INIT.replace("COUNT", "64") + "bar.sync 0; "
              "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [full], 16; "
              "@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [full], 16; "
              "@%p1 mbarrier.arrive.expect_tx.relaxed.cluster.shared.b64 %d1, [full], 0; "
              "@!%p1 mbarrier.arrive_drop.shared.b64 %d1, [full]; "
              "mbarrier.test_wait.relaxed.cluster.shared.b64 %p4, [full], %d1;", [
        *READY, *BAR, "announces_bytes 1 from 0", "operated 1 from 0", "operated 1 from 0",
        "arrives_at 1 from 0 full", "arrives 1 from 0 [1] relaxed cluster", "operated 1 from 0",
        "arrives_at 63 from 1 full", "arrives 63 from 1 [63] release cta", "operated 63 from 1",
        "completes", "tests 64 from 0 [64] relaxed cluster", "waits 63 from 1 False",
        "passes 63 from 1", "waits 1 from 0 False", "passes 1 from 0",
    ]),
    "made twice": (2 * INIT.replace("COUNT", "64"), [*READY, "initialises_again 1 from 0 [1]"]),
    "cp.async": ("cp.async.ca.shared.global [%r3], [%rd2], 16; cp.async.commit_group; "
                 "@%p2 cp.async.ca.shared.global [%r3], [%rd2], 4; cp.async.wait_group 0; "
                 "cp.async.wait_all;", [
        "starts_thread_copy 64 from 0", "starts_thread_copy 32 from 0",
        "waited_for_thread_copy 64 from 0 [64]", "waited_for_thread_copy 64 from 0 [32]",
    ]),
    "copies that arrive": (INIT.replace("COUNT", "64") + "bar.sync 0; "
                           "cp.async.ca.shared.global [%r3], [%rd2], 16; "
                           "cp.async.mbarrier.arrive.noinc.shared.b64 [full]; " + WAIT, [
        *READY, *BAR, "starts_thread_copy 64 from 0", "thread_copies_arrive 64 from 0 [64]",
        "tests 64 from 0 [64] acquire cta", "waits 64 from 0 True", "operated 64 from 0",
        "completes", "passes 64 from 0",
    ]),
    "bulk load": (INIT.replace("COUNT", "1") + "@!%p1 bra X; mbarrier.arrive.expect_tx.shared.b64 "
                  "_, [full], 32; cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                  " [tile], [%rd1], 32, [full]; " + WAIT + "X:", [
        *READY, "arrives_at 1 from 0 full", "arrives 1 from 0 [1] release cta", "operated 1 from 0",
        "starts_copies 1 from 0 1 of them", "tests 1 from 0 [1] acquire cta", "waits 1 from 0 True",
        "lands", "operated 1 from 0", "completes", "passes 1 from 0",
    ]),
    "bulk store": ("@!%p1 bra X; fence.proxy.async.shared::cta; "
                   "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 32; "
                   "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; "
                   "cp.async.bulk.wait_group 0; cp.async.bulk.wait_group 1; X:", [
        "fences_async 1 from 0 shared", "starts_copies 1 from 0 1 of them", "closes_group 1 from 0",
        "source_is_free", "waits_for_groups 1 from 0", "target_is_written",
        "waits_for_groups 1 from 0",
    ]),
    "cluster": ("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;", [
        "arrives_at 64 from 0 cluster", "joins_cluster 64 from 0 0 [64] release", "opens_cluster 0",
        "passes_cluster 64 from 0 0",
    ]),
    "tensor memory": (ALLOC + "tcgen05.st.sync.aligned.32x32b.x2.b32 [%r4], {%r1, %r2}; "
                      "tcgen05.wait::st.sync.aligned; tcgen05.ld.sync.aligned.32x32b.x2.b32 "
                      "{%r5, %r6}, [%r4]; tcgen05.wait::ld.sync.aligned; "
                      "tcgen05.fence::before_thread_sync; tcgen05.fence::after_thread_sync; "
                      + FREE, [
        *ALLOCATED, "stores_columns 32 from 0 1 of them 2", "waits_for_columns 32 from 0 [32] st",
        "loads_columns 32 from 0 1 of them 2", "waits_for_columns 32 from 0 [32] ld",
        "fenced_before 32 from 0", "fenced_after 32 from 0", "deallocates 32 from 0 [32]",
    ]),
    "copied and shifted": (ALLOC + "setp.eq.u32 %p3, %r1, 0; @%p3 mbarrier.init.shared.b64 [full], "
                           "1; @!%p3 bra Y; mov.u32 %r7, tile; shr.u32 %r7, %r7, 4; "
                           "cvt.u64.u32 %rd5, %r7; mov.u64 %rd6, 0x0000400800080000; "
                           "or.b64 %rd5, %rd5, %rd6; tcgen05.cp.cta_group::1.4x256b [%r4], %rd5; "
                           "tcgen05.shift.cta_group::1.down [%r4]; mov.u32 %r8, full; "
                           "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
                           "[%r8]; " + WAIT + "Y: bar.warp.sync -1; " + FREE, [
        *ALLOCATED, *READY, "reads_tile 1 from 0", "copies_columns 1 from 0", "shifts 1 from 0",
        "issues 1 from 0 tcgen05.commit", "commits", "tests 1 from 0 [1] acquire cta",
        "waits 1 from 0 True", "commit_arrives", "operated 1 from 0", "completes",
        "passes 1 from 0", "syncs_warp 32 from 0", "deallocates 32 from 0 [32]",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_what_is_told(what: str) -> None:
    body, wanted = CASES[what]
    assert heard(body) == wanted


def test_a_commit_to_a_generic_address_is_told_and_taken() -> None:
    body, wanted = CASES["copied and shifted"]
    body = body.replace("[%r8]", "[%rd9]").replace("mov.u32 %r8, full;", "mov.u32 %r8, full; "
                        "cvt.u64.u32 %rd9, %r8; cvta.shared.u64 %rd9, %rd9;")  # fmt: skip
    found = heard(body)
    (other,) = [each for each in found if each not in wanted]
    assert other.startswith("address_of_other_space 1 from 0 ") and other.endswith(" generic")
    assert [each for each in found if each != other] == wanted


def test_a_warp_group_s_fence() -> None:
    assert heard("wgmma.fence.sync.aligned;", 128) == ["fences_registers 128 from 0"]


def test_lanes_and_atomics() -> None:
    body = "shfl.sync.idx.b32 %r4, %r1, 0, 31, -1; atom.global.acquire.cta.add.u32 %r5, [%rd2], 1; "
    body += "red.release.sys.global.add.u64 [%rd2], 1;"
    assert heard(body) == [
        "shuffles 64 from 0", "updates 64 from 0 [64] 4 acquire cta 1",
        "updates 64 from 0 [64] 8 release sys 1",
    ]  # fmt: skip


class Products:
    """What is told of products: shape, whether they add, cells of D, how many operands are read."""

    def __init__(self) -> None:
        self.heard: list[tuple[Any, ...]] = []

    def multiplies(
        self, g: Any, target: Any, source: Any, reads: Any, adds: bool, scales: Any, form: int,
        metadata: Any,
    ) -> None:  # fmt: skip
        shape = form >> 16, form & 0xFFFF
        width = target.columns.stop - target.columns.start
        self.heard.append((shape, adds, str(target).split(",")[0], width, source, len(reads)))


@pytest.mark.parametrize(("m", "n", "lanes", "width"), [
    (32, 64, "lanes 0-127", 16), (64, 128, "lanes 0-127", 64), (128, 64, "lanes 0-127", 64),
])  # fmt: skip
def test_the_shape_of_a_product_with_weights(m: int, n: int, lanes: str, width: int) -> None:
    products = Products()
    with observing(products):
        Weights(m, n).run(np.zeros((m, 16), np.uint16), np.zeros((n, 16), np.uint16))
    assert set(products.heard) == {((m, n), False, lanes, width, None, 2)}


@pytest.mark.parametrize(("m", "n", "lanes"), [(64, 32, "lanes 0-111"), (128, 64, "lanes 0-127")])
def test_the_shape_of_a_product(m: int, n: int, lanes: str) -> None:
    for old in (None, np.zeros((128, 256), np.uint32)):
        products = Products()
        with observing(products):
            gemm = Gemm("f16", m, n, "f16", "f16", "f32", width=2)
            gemm.run(np.zeros((m, 16), np.uint16), np.zeros((n, 16), np.uint16),
                     *(() if old is None else (old,)))  # fmt: skip
        assert set(products.heard) == {((m, n), old is not None, lanes, n, None, 2)}
