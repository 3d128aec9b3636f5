"""Bulk copies: cp.async.bulk in every direction, its groups, the async proxy, expected bytes.

PTX ISA 9.7.9.25.4 (cp.async.bulk, cp.reduce.async.bulk), 9.7.9.27.2 (bulk groups),
9.7.13.15.5 (transaction counts), 8.6 (proxies).
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Deadlock, Fault
from phasebit.launching.launch import compile
from tests.emulator.test_cluster import HEAD

BULK = (
    HEAD
    + """
__device__ void load(void* to, const void* from, int bytes, unsigned bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(address(to)), "l"(from), "r"(bytes), "r"(bar) : "memory");
}
__device__ void store(void* to, const void* from, int bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(to), "r"(address(from)), "r"(bytes) : "memory");
}
__device__ void expect(unsigned bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(bar), "r"(bytes) : "memory");
}
__device__ void fence_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ void commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
__device__ void wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
__device__ void wait_all() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
"""
)

pytestmark = pytest.mark.nvcc

SCHEDULES = ["eager", "late", "random"]


def launch(
    body: str, n: int = 256, size: int = 1, threads: int = 64, **options: Any
) -> tuple[Run, np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Run ``k(int* in, int* out)`` of that body on one cluster: the run, ``in``, ``out``."""
    given = np.random.default_rng(7).integers(-(2**31), 2**31, n).astype(np.int32)
    out = np.full(n, 5, np.int32)
    source = BULK + 'extern "C" __global__ void k(int* in, int* out) {' + body + "}"
    kernel = compile(source, "sm_90a")["k"]
    run = kernel.launch(size, threads, [given, out], cluster=size, **options)
    return run, given, out


def kinds(run: Run) -> set[str]:
    return {finding.kind for finding in run.findings}


LOAD = """
    __shared__ alignas(128) int x[256];
    __shared__ unsigned long long full;
    unsigned bar = address(&full);
    if (threadIdx.x == 0) { init(bar, 1); fence_init(); }
    __syncthreads();
    if (threadIdx.x == 0) { expect(bar, EXPECT); load(x, in, 1024, bar); }
    WAIT
    for (int i = threadIdx.x; i < 256; i += 64) out[i] = x[i];
"""


def loading(expect: int = 1024, wait: str = "wait(bar, 0);") -> str:
    return LOAD.replace("EXPECT", str(expect)).replace("WAIT", wait)


class TestLoad:
    """9.7.9.25.4.1: global to shared memory, counted by an mbarrier."""

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_the_bytes_have_come_when_the_phase_completes(self, schedule: str) -> None:
        run, given, out = launch(loading(), schedule=schedule)
        assert np.array_equal(given, out)
        assert not run.findings

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_without_the_wait_there_is_a_finding(self, schedule: str) -> None:
        run, _, _ = launch(loading(wait="__syncthreads();"), schedule=schedule)
        assert "async" in kinds(run)
        copied = [h for h in run.findings if "has not waited for mbarrier full" in h.message]
        assert copied and all("cp.async.bulk" in h.message.split("full: ")[1] for h in copied)

    def test_late_it_also_reads_what_was_there_before(self) -> None:
        _, given, out = launch(loading(wait="__syncthreads();"), schedule="late")
        assert not np.array_equal(given, out)

    def test_the_wait_of_one_thread_and_a_barrier_is_enough(self) -> None:
        run, given, out = launch(
            loading(wait="if (threadIdx.x == 0) wait(bar, 0);\n__syncthreads();")
        )
        assert np.array_equal(given, out)
        assert not run.findings

    @pytest.mark.parametrize(
        ("expect", "words"),
        [(2048, "1024 too many announced"), (512, "512 not announced")],
    )
    def test_wrong_expected_bytes_say_by_how_many(self, expect: int, words: str) -> None:
        """9.7.13.15.5: the phase does not complete while bytes are outstanding."""
        with pytest.raises(Deadlock, match=words) as caught:
            launch(loading(expect))
        said = rf"announced: {expect} by `mbarrier.*expect_tx.* at PTX line"
        assert re.search(said, str(caught.value))

    def test_bytes_that_nobody_waits_for_are_found_at_the_end(self) -> None:
        run, _, _ = launch(loading(512, wait=""), schedule="eager")
        assert any("512 not announced" in h.message for h in run.findings)

    def test_another_barriers_phase_is_not_enough(self) -> None:
        """A complete-tx publishes only its own copy (8.9.1.1)."""
        body = """
            __shared__ alignas(128) int x[2][64];
            __shared__ unsigned long long full[2];
            if (threadIdx.x == 0) {
                init(address(&full[0]), 1); init(address(&full[1]), 1);
            }
            __syncthreads();
            if (threadIdx.x == 0)
                for (int i = 0; i < 2; ++i) {
                    expect(address(&full[i]), 256);
                    load(x[i], in + 64 * i, 256, address(&full[i]));
                }
            wait(address(&full[1]), 0);
            out[threadIdx.x] = x[WHICH][threadIdx.x];
            wait(address(&full[0]), 0);
        """
        assert not launch(body.replace("WHICH", "1"))[0].findings
        assert "async" in kinds(launch(body.replace("WHICH", "0"))[0])

    @pytest.mark.parametrize(
        ("call", "words"),
        [
            ("load(x, in, 1000, bar)", "1000 bytes, is no multiple of 16"),
            ("load(x, in + 1, 1008, bar)", "global address .* is no multiple of 16"),
            ("load(x + 2, in, 1008, bar)", "shared address .* is no multiple of 16"),
            ("load(x, in + 128, 1024, bar)", "past the end"),
            ("load(x + 64, in, 1024, bar)", "invalid shared access"),
        ],
    )
    def test_addresses_and_size_are_checked(self, call: str, words: str) -> None:
        with pytest.raises(Fault, match=words):
            launch(loading().replace("load(x, in, 1024, bar)", call))

    def test_a_target_that_is_still_read_is_found(self) -> None:
        """Readers must be done before the copy engine writes."""
        body = loading().replace("out[i] = x[i];", "out[i] = x[i];\n#define AGAIN\n") + """
            BETWEEN
            if (threadIdx.x == 0) { expect(bar, 1024); load(x, in, 1024, bar); }
            wait(bar, 1);
        """
        assert "race" in kinds(launch(body.replace("BETWEEN", ""))[0])
        fenced = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); __syncthreads();'
        assert not launch(body.replace("BETWEEN", fenced))[0].findings

    def test_a_block_that_leaves_before_the_bytes_have_come_is_found(self) -> None:
        run, _, _ = launch(loading(wait="return;"))
        assert any("may leave the kernel before a bulk copy" in h.message for h in run.findings)


STORE = """
    __shared__ alignas(128) int x[256];
    for (int i = threadIdx.x; i < 256; i += 64) x[i] = in[i] + 1;
    BEFORE
    if (threadIdx.x == 0) { store(out, x, 1024); commit(); AFTER }
    THEN
"""


def storing(
    before: str = "fence_async(); __syncthreads();", after: str = "wait_all();", then: str = ""
) -> str:
    return STORE.replace("BEFORE", before).replace("AFTER", after).replace("THEN", then)


class TestStore:
    """9.7.9.25.4.1: shared to global memory, in bulk groups."""

    @pytest.mark.parametrize("schedule", SCHEDULES)
    @pytest.mark.parametrize("after", ["wait_all();", "wait_read();"])
    def test_the_bytes_are_there_after_the_kernel(self, schedule: str, after: str) -> None:
        run, given, out = launch(storing(after=after), schedule=schedule)
        assert np.array_equal(out, given + 1)
        assert not run.findings

    def test_the_fence_may_be_the_copying_threads(self) -> None:
        """8.6: a fence anywhere on the way from the store to the copy."""
        run, _, _ = launch(storing("__syncthreads(); fence_async();"))
        assert not run.findings

    @pytest.mark.parametrize("before", ["__syncthreads();", "if (threadIdx.x > 0) fence_async();\n"
                                        "__syncthreads();"])  # fmt: skip
    def test_a_missing_proxy_fence_is_found_with_the_line(self, before: str) -> None:
        run, _, _ = launch(storing(before))
        (finding,) = run.findings
        assert finding.kind == "proxy"
        assert "no fence.proxy.async lies between" in finding.message
        assert "cp.async.bulk.global" in finding.message
        assert "`st.shared" in finding.message

    def test_a_fence_before_the_store_is_too_early(self) -> None:
        body = storing("__syncthreads();").replace("for (int i", "fence_async();\nfor (int i", 1)
        assert kinds(launch(body)[0]) == {"proxy"}

    def test_a_missing_barrier_is_a_race(self) -> None:
        assert "race" in kinds(launch(storing("fence_async();"))[0])

    def test_leaving_before_the_source_has_been_read_is_found(self) -> None:
        run, _, _ = launch(storing(after=""))
        assert any("may still read its shared memory" in h.message for h in run.findings)

    def test_the_source_may_be_overwritten_after_wait_group_read(self) -> None:
        """9.7.9.27.2.2."""
        again = "__syncthreads(); x[threadIdx.x] = 0;"
        run, given, out = launch(storing(after="wait_read();", then=again), schedule="late")
        assert np.array_equal(out, given + 1)
        assert not run.findings
        run, given, out = launch(storing(after="", then=again), schedule="late")
        assert "async" in kinds(run)
        assert not np.array_equal(out, given + 1)

    def test_the_target_may_be_read_after_wait_group(self) -> None:
        look = "__syncthreads(); out[threadIdx.x] = out[threadIdx.x + 64];"
        run, given, out = launch(storing(then=look), schedule="late")
        assert np.array_equal(out[:64], given[64:128] + 1)
        assert not run.findings
        run, _, _ = launch(storing(after="wait_read();", then=look), schedule="late")
        assert "async" in kinds(run)

    def test_wait_group_n_leaves_the_newest(self) -> None:
        body = """
            __shared__ alignas(128) int x[3][64];
            for (int k = 0; k < 3; ++k) x[k][threadIdx.x] = k + 1;
            fence_async();
            __syncthreads();
            if (threadIdx.x == 0) {
                for (int k = 0; k < 3; ++k) { store(out + 64 * k, x[k], 256); commit(); }
                asm volatile("cp.async.bulk.wait_group 1;" ::: "memory");
                in[0] = out[0]; in[1] = out[64]; THIRD
                wait_all();
            }
        """
        run, given, _ = launch(body.replace("THIRD", ""), schedule="late")
        assert list(given[:2]) == [1, 2]
        assert not run.findings
        run, given, _ = launch(body.replace("THIRD", "in[2] = out[128];"), schedule="late")
        assert given[2] == 5
        assert "async" in kinds(run)


REDUCE = """
    __shared__ alignas(128) int x[256];
    for (int i = threadIdx.x; i < 256; i += 64) x[i] = in[i];
    fence_async();
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.OP [%0], [%1], 1024;"
                     :: "l"(out), "r"(address(x)) : "memory");
        commit();
        wait_all();
    }
"""


class TestReduce:
    """9.7.9.25.4.2."""

    @pytest.mark.parametrize(
        ("op", "form", "apply"),
        [
            ("add.s32", "i4", np.add), ("add.u64", "u8", np.add), ("min.s32", "i4", np.minimum),
            ("max.u32", "u4", np.maximum), ("min.s64", "i8", np.minimum),
            ("and.b32", "u4", np.bitwise_and), ("or.b64", "u8", np.bitwise_or),
            ("xor.b32", "u4", np.bitwise_xor),
            ("inc.u32", "u4", lambda a, b: np.where(a >= b, 0, a + 1)),
            ("dec.u32", "u4", lambda a, b: np.where((a == 0) | (a > b), b, a - 1)),
        ],
    )  # fmt: skip
    def test_combines(self, op: str, form: str, apply: Any) -> None:
        run, given, out = launch(REDUCE.replace("OP", op))
        before = np.full(256, 5, np.int32).view(form)
        assert np.array_equal(out.view(form), apply(before, given.view(form)))
        assert not run.findings


PEER = """
    __shared__ alignas(128) int x[128], y[128];
    __shared__ unsigned long long full;
    unsigned bar = address(&full), rank = cluster_rank();
    if (threadIdx.x == 0) { init(bar, 1); fence_init(); expect(bar, 512); }
    x[threadIdx.x] = rank * 1000 + threadIdx.x;
    x[threadIdx.x + 64] = 0;
    fence_async();
    arrive(); cluster_wait();
    if (threadIdx.x == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
                     " [%0], [%1], 512, [%2];"
                     :: "r"(mapa(address(y), 1 - rank)), "r"(address(x)),
                        "r"(mapa(bar, 1 - rank)) : "memory");
    wait(bar, 0);
    out[rank * 64 + threadIdx.x] = y[threadIdx.x];
    LAST
"""


class TestCluster:
    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_from_block_to_block(self, schedule: str) -> None:
        """9.7.9.25.4.1, shared::cta to shared::cluster."""
        body = PEER.replace("LAST", "arrive(); cluster_wait();")
        run, _, out = launch(body, size=2, schedule=schedule)
        assert np.array_equal(out[:128].reshape(2, 64), [np.arange(64) + 1000, np.arange(64)])
        assert not run.findings

    def test_the_source_must_stay(self) -> None:
        run, _, _ = launch(PEER.replace("LAST", ""), size=2)
        assert any("may still read its shared memory" in h.message for h in run.findings)

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_multicast(self, schedule: str) -> None:
        """9.7.9.25.4.1: each block of the mask gets the bytes, and its own barrier counts them."""
        body = """
            __shared__ alignas(128) int x[64];
            __shared__ unsigned long long full;
            unsigned bar = address(&full), rank = cluster_rank();
            if (threadIdx.x == 0) { init(bar, 1); fence_init(); if (rank != 2) expect(bar, 256); }
            arrive(); cluster_wait();
            if (threadIdx.x == 0 && rank == 1)
                asm volatile("{ .reg .b16 m; mov.b16 m, 11; cp.async.bulk.shared::cluster.global."
                             "mbarrier::complete_tx::bytes.multicast::cluster"
                             " [%0], [%1], 256, [%2], m; }"
                             :: "r"(address(x)), "l"(in), "r"(bar) : "memory");
            if (rank != 2) {
                wait(bar, 0);
                out[rank * 64 + threadIdx.x] = x[threadIdx.x];
            }
            arrive(); cluster_wait();
        """
        run, given, out = launch(body, size=4, schedule=schedule)
        assert np.array_equal(out.reshape(4, 64)[[0, 1, 3]], np.tile(given[:64], (3, 1)))
        assert (out.reshape(4, 64)[2] == 5).all()
        assert not run.findings


SEND = """
    __shared__ alignas(16) int x[256];
    __shared__ unsigned long long full;
    unsigned bar = address(&full), rank = cluster_rank();
    x[threadIdx.x] = 100;
    if (threadIdx.x == 0) { init(bar, 1); fence_init(); expect(bar, BYTES); }
    arrive(); cluster_wait();
    int a = rank * 1000 + threadIdx.x;
    asm volatile("INSTRUCTION"
                 :: "r"(mapa(address(&x[threadIdx.x * WORDS]), 1 - rank)), "r"(a),
                    "r"(mapa(bar, 1 - rank)) : "memory");
    WAIT
    for (int i = 0; i < WORDS; ++i)
        out[rank * 64 * WORDS + i * 64 + threadIdx.x] = x[i * 64 + threadIdx.x];
    arrive(); cluster_wait();
"""


def sending(instruction: str, words: int = 1, wait: str = "wait(bar, 0);") -> str:
    return (
        SEND.replace("INSTRUCTION", instruction).replace("WORDS", str(words))
        .replace("BYTES", str(256 * words)).replace("WAIT", wait)
    )  # fmt: skip


class TestAsyncStores:
    """9.7.9.12 (st.async), 9.7.13.7 (red.async): values sent to another block."""

    STORE = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{} [%0], {}, [%2];"
    MINE = np.arange(64) + np.array([[1000], [0]])

    @pytest.mark.parametrize("schedule", SCHEDULES)
    def test_st_async(self, schedule: str) -> None:
        run, _, out = launch(sending(self.STORE.format(".s32", "%1")), size=2, schedule=schedule)
        assert np.array_equal(out[:128].reshape(2, 64), self.MINE)
        assert not run.findings

    def test_st_async_of_vectors(self) -> None:
        text = self.STORE.format(".v4.b32", "{%1, %1, %1, %1}")
        run, _, out = launch(sending(text, 4), n=512, size=2)
        assert np.array_equal(out.reshape(2, 256), np.repeat(self.MINE, 4, axis=1))
        assert not run.findings

    def test_without_the_wait_it_is_found(self) -> None:
        text = sending(self.STORE.format(".s32", "%1"), wait="__syncthreads();")
        run, _, _ = launch(text, size=2, schedule="late")
        assert "async" in kinds(run)

    @pytest.mark.parametrize(
        ("op", "apply"), [("add.u32", np.add), ("max.s32", np.maximum), ("and.b32", np.bitwise_and)]
    )
    def test_red_async(self, op: str, apply: Any) -> None:
        text = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{op}"
        run, _, out = launch(sending(text + " [%0], %1, [%2];"), size=2)
        assert np.array_equal(out[:128].reshape(2, 64), apply(self.MINE, 100))
        assert not run.findings
