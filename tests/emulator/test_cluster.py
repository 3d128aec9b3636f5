"""Clusters: blocks that reach each other's shared memory, and the cluster barrier.

PTX ISA 5.1.7 (shared::cluster), 9.7.13.3 (barrier.cluster), 9.7.9.22 (mapa), 9.7.13.15 (mbarrier).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault
from phasebit.launching.launch import compile

HEAD = """
__device__ unsigned address(const void* p) { return __cvta_generic_to_shared(p); }
__device__ unsigned mapa(unsigned a, unsigned rank) {
    unsigned b;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(b) : "r"(a), "r"(rank));
    return b;
}
__device__ void init(unsigned a, int n) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(a), "r"(n) : "memory");
}
__device__ void fence_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void remote_arrive(unsigned a) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                 :: "r"(a) : "memory");
}
__device__ void wait(unsigned a, int parity) {
    asm volatile("{ .reg .pred p; L: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64"
                 " p, [%0], %1; @!p bra L; }" :: "r"(a), "r"(parity) : "memory");
}
__device__ void arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ void arrive_relaxed() {
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
__device__ unsigned cluster_rank() {
    unsigned r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
"""

RING = """
#include <cooperative_groups.h>  // a second of nvcc's time, so only here
namespace cg = cooperative_groups;
// Each block takes its neighbour's tile from distributed shared memory.
extern "C" __global__ void ring(const int* in, int* out) {
    __shared__ int tile[64], sums[64];
    cg::cluster_group cluster = cg::this_cluster();
    unsigned rank = cluster.block_rank(), next = (rank + 1) % cluster.num_blocks();
    tile[threadIdx.x] = in[blockIdx.x * 64 + threadIdx.x];
    sums[threadIdx.x] = 0;
    cluster.sync();
    int x = cluster.map_shared_rank(tile, next)[threadIdx.x ^ 1];
    atomicAdd(&cluster.map_shared_rank(sums, next)[threadIdx.x], 1000 + x);
    cluster.sync();
    out[blockIdx.x * 64 + threadIdx.x] = x + sums[threadIdx.x];
}
"""

pytestmark = pytest.mark.nvcc


def launch(body: str, size: int = 2, threads: int = 64, **options: Any) -> tuple[Run, Any]:
    """Run ``k(int* out)`` of that body on one cluster; the run, and what is in ``out``."""
    out = np.full(size * threads, -1, np.int32)
    source = HEAD + 'extern "C" __global__ void k(int* out) {' + body + "}"
    run = compile(source, "sm_90a")["k"].launch(size, threads, [out], cluster=size, **options)
    return run, out


@pytest.mark.parametrize("size", [1, 2, 4, 8])
def test_distributed_shared_memory(size: int) -> None:
    data = np.arange(512, dtype=np.int32)
    out = np.zeros(512, np.int32)
    run = compile(HEAD + RING, "sm_90a")["ring"].launch(8, 64, [data, out], cluster=size)
    blocks = data.reshape(8 // size, size, 64)
    swapped = blocks[:, :, np.arange(64) ^ 1]
    wanted = np.roll(swapped, -1, axis=1) + 1000 + swapped
    assert np.array_equal(out.reshape(8 // size, size, 64), wanted)
    assert not run.findings


def test_an_address_is_the_rank_and_the_offset() -> None:
    """5.1.7: every shared address, one's own too, has the block's rank in bits 24 and up."""
    run, out = launch("""
        __shared__ int x[4];
        unsigned own = address(x), other = mapa(own, 1 - cluster_rank()), rank;
        asm volatile("getctarank.shared::cluster.u32 %0, %1;" : "=r"(rank) : "r"(other));
        out[blockIdx.x * 64 + threadIdx.x] = (own >> 24) * 100 + (other >> 24) * 10 + rank;
    """)
    assert (out[:64] == 11).all()
    assert (out[64:] == 100).all()
    assert not run.findings


def test_a_rank_that_is_not_there_is_a_fault() -> None:
    with pytest.raises(Fault, match="no block of rank 5"):
        launch("""
            __shared__ int x;
            int y;
            asm volatile("ld.shared::cluster.s32 %0, [%1];" : "=r"(y) : "r"(mapa(address(&x), 5)));
            out[threadIdx.x] = y;
        """)


EXCHANGE = """
    __shared__ int x[64];
    x[threadIdx.x] = threadIdx.x;
    %s
    int y;
    unsigned there = mapa(address(&x[threadIdx.x ^ 32]), 1 - cluster_rank());
    asm volatile("ld.shared::cluster.s32 %%0, [%%1];" : "=r"(y) : "r"(there) : "memory");
    out[blockIdx.x * 64 + threadIdx.x] = y;
    %s
"""


class TestClusterBarrier:
    """9.7.13.3."""

    def test_orders_both_sides(self) -> None:
        both = "arrive(); cluster_wait();"
        run, out = launch(EXCHANGE % (both, both))
        assert np.array_equal(out.reshape(2, 64), np.tile(np.arange(64) ^ 32, (2, 1)))
        assert not run.findings

    def test_without_it_there_is_a_race(self) -> None:
        run, _ = launch(EXCHANGE % ("__syncthreads();", "arrive(); cluster_wait();"))
        assert "race" in {h.kind for h in run.findings}

    def test_a_relaxed_arrival_publishes_nothing(self) -> None:
        both = "arrive(); cluster_wait();"
        run, _ = launch(EXCHANGE % ("arrive_relaxed(); cluster_wait();", both))
        assert "race" in {h.kind for h in run.findings}

    def test_a_block_that_leaves_before_its_peers_are_done_is_found(self) -> None:
        run, _ = launch(EXCHANGE % ("arrive(); cluster_wait();", ""))
        (finding,) = run.findings
        assert finding.kind == "cluster"
        assert "may leave the kernel before" in finding.message

    def test_reaching_into_a_block_that_has_left_is_found(self) -> None:
        run, _ = launch("""
            __shared__ int x;
            x = 1;
            arrive(); cluster_wait();
            if (cluster_rank() == 1) return;
            for (int i = 0; i < 200; ++i) asm volatile("nanosleep.u32 100;");
            asm volatile("st.shared::cluster.s32 [%0], 1;" :: "r"(mapa(address(&x), 1)) : "memory");
        """)
        assert any("has left the kernel" in h.message for h in run.findings), run.findings

    def test_threads_that_have_left_are_not_waited_for(self) -> None:
        run, out = launch("""
            if (threadIdx.x >= 32) return;
            arrive();
            cluster_wait();
            out[blockIdx.x * 64 + threadIdx.x] = 1;
        """)
        assert out.sum() == 64 - 64
        assert not run.findings

    def test_generations_follow_each_other(self) -> None:
        run, out = launch("""
            __shared__ int x;
            if (threadIdx.x == 0) x = 0;
            int seen = 0;
            for (int i = 0; i < 5; ++i) {
                arrive(); cluster_wait();
                if (threadIdx.x == 0) {
                    unsigned there = mapa(address(&x), 1 - cluster_rank());
                    asm volatile("st.shared::cluster.s32 [%0], %1;"
                                 :: "r"(there), "r"(i + 1) : "memory");
                }
                arrive(); cluster_wait();
                seen += *(volatile int*)&x;
            }
            out[blockIdx.x * 64 + threadIdx.x] = seen;
            arrive(); cluster_wait();
        """)
        assert (out == 15).all()
        assert not run.findings

    def test_a_block_that_does_not_arrive_is_named(self) -> None:
        with pytest.raises(Deadlock, match="not here: all threads of block 1"):
            launch("""
                __shared__ unsigned long long b;
                if (cluster_rank() == 1) {
                    if (threadIdx.x == 0) init(address(&b), 1);
                    __syncthreads();
                    wait(address(&b), 0);
                }
                arrive(); cluster_wait();
            """)

    def test_arriving_twice_is_found(self) -> None:
        run, _ = launch("arrive(); arrive(); cluster_wait();")
        assert any("second time without waiting" in h.message for h in run.findings)


REMOTE = """
    __shared__ unsigned long long full;
    __shared__ int x[64];
    unsigned rank = cluster_rank(), mine = address(&full);
    if (threadIdx.x == 0) { init(mine, 64); %s }
    %s
    int y = 0;
    if (rank == 0) {
        unsigned there = mapa(address(&x[threadIdx.x]), 1);
        asm volatile("st.shared::cluster.s32 [%%0], %%1;"
                     :: "r"(there), "r"(threadIdx.x * 3) : "memory");
        remote_arrive(mapa(mine, 1));
    } else {
        wait(mine, 0);
        y = x[threadIdx.x ^ 7];
    }
    out[blockIdx.x * 64 + threadIdx.x] = y;
    %s
"""


class TestRemoteArrive:
    """9.7.13.15.13: an arrival at a barrier of another block of the cluster."""

    def test_carries_the_data(self) -> None:
        both = "arrive(); cluster_wait();"
        run, out = launch(REMOTE % ("", both, both))
        assert np.array_equal(out[64:], (np.arange(64) ^ 7) * 3)
        assert not run.findings

    def test_fence_mbarrier_init_and_a_relaxed_barrier_publish_the_barrier(self) -> None:
        """9.7.13.4: the light way, which orders nothing but the initialisation."""
        both = "arrive(); cluster_wait();"
        run, _ = launch(REMOTE % ("fence_init();", "arrive_relaxed(); cluster_wait();", both))
        assert not [h for h in run.findings if h.kind == "race" and "full" in h.message]

    def test_without_the_fence_the_relaxed_barrier_does_not(self) -> None:
        both = "arrive(); cluster_wait();"
        run, _ = launch(REMOTE % ("", "arrive_relaxed(); cluster_wait();", both))
        assert [h for h in run.findings if h.kind == "race" and "full" in h.message]

    def test_9_7_13_4_a_thread_may_initialise_one_more_after_its_fence(self) -> None:
        """CUTLASS does for its pairs of blocks; on a GPU it holds."""
        both, more = "arrive(); cluster_wait();", (
            "__shared__ unsigned long long other; if (threadIdx.x == 0) init(address(&other), 1);"
            "fence_init();"
        )
        before = REMOTE.replace("if (threadIdx.x == 0) {", more + "if (threadIdx.x == 0) {", 1)
        assert before != REMOTE
        run, _ = launch(before % ("", "arrive_relaxed(); cluster_wait();", both))
        assert not [h for h in run.findings if h.kind == "race" and "full" in h.message]

    def test_the_barriers_block_must_stay(self) -> None:
        both = "arrive(); cluster_wait();"
        body = REMOTE % ("", both, "")
        run, _ = launch(body.replace("wait(mine, 0);", ""))
        assert "cluster" in {h.kind for h in run.findings}

    def test_waiting_at_another_blocks_barrier_is_a_fault(self) -> None:
        with pytest.raises(Fault, match="its own barriers only"):
            launch("""
                __shared__ unsigned long long b;
                if (threadIdx.x == 0) init(address(&b), 1);
                arrive(); cluster_wait();
                wait(mapa(address(&b), 1 - cluster_rank()), 1);
            """)


def test_setmaxnreg_checks_the_count() -> None:
    """9.7.19.5: a multiple of 8 from 24 to 256."""
    launch('asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");', threads=128)


SHARE = """
    __shared__ int box[64];
    __shared__ unsigned flag;
    __shared__ unsigned long long full;
    unsigned t = threadIdx.x, rank = cluster_rank(), bar = address(&full);
    if (t == 0) { init(bar, 64); fence_init(); flag = 0; }
    arrive(); cluster_wait();
    if (rank == 1) { box[t] = t + 1; TELL } else { HEAR READ }
    arrive(); cluster_wait();
"""
READ = """
    int v;
    asm volatile("ld.shared::cluster.u32 %0, [%1];"
                 : "=r"(v) : "r"(mapa(address(&box[63 - t]), 1)) : "memory");
    out[t] = v;
"""


def arrives(how: str) -> str:
    return (
        f'asm volatile("mbarrier.arrive{how}.shared::cluster.b64 _, [%0];"'
        ' :: "r"(mapa(bar, 0)) : "memory");'
    )


def waits(how: str) -> str:
    return (
        f'asm volatile("{{ .reg .pred p; L: mbarrier.try_wait.parity{how}.shared::cta.b64"'
        ' " p, [%0], 0; @!p bra L; }" :: "r"(bar) : "memory");'
    )


def stores(how: str) -> str:
    return (
        '__syncthreads(); if (t == 0) asm volatile("st.'
        + how
        + '.shared::cluster.u32 [%0], 1;" :: "r"(mapa(address(&flag), 0)) : "memory");'
    )


LOOKS = """
    unsigned f;
    do asm volatile("ld.acquire.cluster.shared::cta.u32 %0, [%1];"
                    : "=r"(f) : "r"(address(&flag)) : "memory");
    while (!f);
"""


class TestScopes:
    """8.5, 9.7.13.15.13: ``.cta``, also where no scope is written, orders within one block."""

    NARROW = (
        (arrives(".release.cta"), waits(".acquire.cluster")),
        (arrives(""), waits(".acquire.cluster")),
        (arrives(".release.cluster"), waits("")),
        (stores("release.cta"), LOOKS),
    )
    WIDE = (
        (arrives(".release.cluster"), waits(".acquire.cluster")),
        (arrives(".release.cluster"), waits("") + "arrive(); cluster_wait();"),
        (arrives(".release.cluster"), waits("") + 'asm volatile("fence.acq_rel.cluster;");'),
        ('asm volatile("fence.acq_rel.cluster;");' + arrives(""), waits(".acquire.cluster")),
        (stores("release.cluster"), LOOKS),
    )

    RELEASE = 'asm volatile("fence.release.sync_restrict::shared::cta.cluster;");'
    ACQUIRE = 'asm volatile("fence.acquire.sync_restrict::shared::cluster.cluster;");'
    ONE_WAY = (
        (RELEASE + stores("relaxed.cluster"), LOOKS, True),
        (stores("release.cluster"), LOOKS.replace("acquire", "relaxed") + ACQUIRE, True),
        (RELEASE + stores("relaxed.cluster"), LOOKS.replace("acquire", "relaxed") + ACQUIRE, True),
        (ACQUIRE + stores("relaxed.cluster"), LOOKS, False),
        (stores("release.cluster"), LOOKS.replace("acquire", "relaxed") + RELEASE, False),
    )

    @pytest.mark.parametrize("how", range(len(ONE_WAY)))
    def test_9_7_13_4_a_fence_with_sync_restrict_has_one_direction(self, how: int) -> None:
        """``.release`` lets no relaxed read before it count, ``.acquire`` publishes nothing."""
        tell, hear, ordered = self.ONE_WAY[how]
        if how in (0, 2, 3):  # all threads fence before they meet
            fence, rest = tell.split("__syncthreads();")
            tell = fence + "__syncthreads();" + rest
        run, _ = self.share(tell, hear)
        assert {finding.rule for finding in run.findings} == (set() if ordered else {"race"})

    def share(self, tell: str, hear: str, read: str = READ) -> tuple[Run, Any]:
        if "arrive();" in hear:
            tell += "arrive(); cluster_wait();"
        body = SHARE.replace("TELL", tell).replace("HEAR", hear).replace("READ", read)
        return launch(body)

    @pytest.mark.parametrize("how", range(len(NARROW)))
    def test_what_another_block_wrote_needs_cluster_scope(self, how: int) -> None:
        run, _ = self.share(*self.NARROW[how])
        assert [finding.rule for finding in run.findings] == ["narrow-scope"]
        assert "thread 0 of block 0 reads box[252 bytes in]" in str(run.findings[0])
        assert len(run.findings[0].places) == 3

    @pytest.mark.parametrize("how", range(len(WIDE)))
    def test_with_it_nothing_is_found(self, how: int) -> None:
        run, out = self.share(*self.WIDE[how])
        assert not run.findings
        assert (out[:64] == 64 - np.arange(64)).all()

    def test_a_count_alone_needs_none(self) -> None:
        run, _ = self.share(*self.NARROW[1], read="box[t] = 7; out[t] = box[t];")
        assert not run.findings

    def test_what_its_own_block_said_needs_none(self) -> None:
        told = "if (t < 32) {" + waits(".acquire.cluster") + "} __syncthreads();"
        run, out = self.share(self.WIDE[0][0], told)
        assert not run.findings
        assert (out[:64] == 64 - np.arange(64)).all()
