"""One of two processes, a GPU each, that measure *Two GPUs*: `record` starts both.

    python -m phasebit.chapters.two_gpus.ranks RANK PLAN

PLAN is a JSON file: the port at which the two meet, the libraries, the shapes, and where rank 0
writes what was measured. Processes, because NCCL and torch's operators want one for each GPU; ours
would not. NVLink multicast stays off: what is compared is a kernel that does not use it.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import random
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

from phasebit import process, toolchain
from phasebit.instruments.beside_torch import cut_sums

Launch = Callable[[], Any]

WARM, EACH, REST = 3, 10, 0.02
"""Launches that do not count, launches that do, and seconds without work before them."""
STAY = "scatter, carried", "scatter, each warp waits"
"""Kernels that are also timed with their parts staying at home. (A copy to one's own memory would
be a kernel, which waits until the product has ended.)"""
_AHEAD = 3_000_000  # cycles that the GPU waits, so that the host is ahead of it
_STRIP = 128  # rows of A that a flag counts
_SAMPLE = 64
_LIMIT = timedelta(seconds=60)
_MOST_TURNS = 4096


def measured(module: str, plan: Mapping[str, Any], seconds: float) -> list[dict[str, Any]]:
    """Run both processes, ``module`` each, and return what rank 0 has written.

    ``plan`` goes to both, with the port and the file of the result. Raises
    :class:`toolchain.CudaError` where one fails or does not end in ``seconds``.
    """
    with tempfile.TemporaryDirectory() as scratch, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        told, result = Path(scratch, "plan.json"), Path(scratch, "result.json")
        told.write_text(json.dumps({"port": port, "result": str(result), **plan}), "utf-8")
        with ThreadPoolExecutor(2) as pool:
            ended = list(pool.map(
                lambda rank: process.run(
                    [sys.executable, "-m", module, str(rank), told], timeout=seconds
                ),
                range(2),
            ))  # fmt: skip
        for rank, done in enumerate(ended):
            if not done.ok:
                why = "did not end in time" if done.stopped else f"status {done.status}"
                raise toolchain.CudaError(
                    f"the process of GPU {rank} failed, {why}: {done.stderr[-2000:]}"
                )
        found: list[dict[str, Any]] = json.loads(result.read_text("utf-8"))
        return found


class Pair:
    """This process, its GPU, and the other's."""

    def __init__(self, rank: int, port: int) -> None:
        os.environ |= {"NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1"}
        self.torch = torch = importlib.import_module("torch")
        self.dist = importlib.import_module("torch.distributed")
        self.symmetric = importlib.import_module("torch.distributed._symmetric_memory")
        self.rank, self.peer = rank, 1 - rank
        torch.cuda.set_device(rank)
        torch.manual_seed(rank + 1)  # or both have the same numbers
        self.device = torch.device("cuda", rank)
        self.dist.init_process_group(
            "nccl", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2,
            timeout=_LIMIT, device_id=self.device,
        )  # fmt: skip
        self.group = self.dist.group.WORLD.group_name
        self.units = torch.cuda.get_device_properties(rank).multi_processor_count
        self.stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self.one = torch.ones(1, device=self.device)

    def meet(self) -> None:
        """Both are here, and their GPUs are idle."""
        self.torch.cuda.synchronize()
        self.dist.barrier()
        self.torch.cuda.synchronize()

    def random(self, *size: int) -> Any:
        """Normal random numbers of bf16."""
        return self.torch.randn(*size, device=self.device, dtype=self.torch.bfloat16)

    def shared(self, count: int, kind: Any) -> tuple[Any, Any]:
        """Memory that the other process can reach: ours, and the peer's as this process sees it."""
        own = self.symmetric.empty(count, dtype=kind, device=self.device)
        own.zero_()
        handle = self.symmetric.rendezvous(own, self.group)
        return own, handle.get_buffer(self.peer, (count,), kind)

    def times(self, launches: Mapping[str, Launch], rounds: int) -> dict[str, list[float]]:
        """Microseconds of a launch, the slower GPU's: the mean of a row of :data:`EACH`."""
        torch, order = self.torch, random.Random(9)
        found: dict[str, list[float]] = {name: [] for name in launches}
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        for _ in range(rounds):
            for name in order.sample([*launches], len(launches)):
                self.meet()
                time.sleep(REST)
                for _ in range(WARM):
                    launches[name]()
                self.meet()
                torch.cuda._sleep(_AHEAD)
                self.dist.all_reduce(self.one)  # both GPUs begin together
                begin.record()
                for _ in range(EACH):
                    launches[name]()
                end.record()
                torch.cuda.synchronize()
                found[name].append(begin.elapsed_time(end) * 1e3 / EACH)
        both: list[Any] = [None, None]
        self.dist.all_gather_object(both, found)
        return {name: [round(max(pair), 2) for pair in zip(both[0][name], both[1][name],
                                                           strict=True)]
                for name in found}  # fmt: skip


class Ours:
    """Our kernels on matrices of both processes.

    ``sent``: elements that one sends in a turn; ``counts``: what a turn adds to each flag.
    """

    def __init__(self, pair: Pair, sent: int, counts: Sequence[int]) -> None:
        torch = pair.torch
        self.pair, self.sent, self.turn = pair, sent, 0
        self.slots, self.there = pair.shared(2 * sent, torch.bfloat16)
        self.full, self.there_full = pair.shared(len(counts), torch.int32)
        turns = torch.arange(_MOST_TURNS, device=pair.device, dtype=torch.int32)
        self.counts = turns[:, None] * torch.tensor(counts, device=pair.device, dtype=torch.int32)
        self.leaving = torch.empty(2 * sent, device=pair.device, dtype=torch.bfloat16)
        self.made = torch.zeros(len(counts), device=pair.device, dtype=torch.int32)
        pair.meet()

    def launch(self, library: ctypes.CDLL, matrices: Sequence[Any], shape: Sequence[int],
               home: bool = False) -> None:  # fmt: skip
        """One turn of a kernel; ``home``: what it sends stays here, and only the flags leave."""
        def at(tensor: Any) -> ctypes.c_void_p:
            return ctypes.c_void_p(tensor.data_ptr())

        pair, first = self.pair, self.turn % 2 * self.sent
        self.turn += 1
        library.product(
            *map(at, matrices), *shape, pair.rank, self.turn, pair.units,
            at((self.slots if home else self.there)[first : first + self.sent]),
            at(self.there_full),
            at(self.slots[first : first + self.sent]), at(self.full),
            at(self.counts[self.turn]), at(self.leaving[first : first + self.sent]),
            at(self.made), pair.stream,
        )  # fmt: skip


def gather(pair: Pair, libraries: Mapping[str, ctypes.CDLL], shape: tuple[int, int, int],
           rounds: int, whole: bool) -> dict[str, list[float]]:  # fmt: skip
    """All-gather of A (M, K), then its product with this GPU's B (N, K)."""
    torch, dist = pair.torch, pair.dist
    m, n, k = shape
    rows = m // 2
    own, b = pair.random(rows, k), pair.random(n, k)
    a, c = (torch.empty(m, x, device=pair.device, dtype=torch.bfloat16) for x in (k, n))
    strips = [min(_STRIP, rows - first) for first in range(0, rows, _STRIP)]
    link = Ours(pair, rows * k, strips)

    def ours(which: str) -> Launch:
        return lambda: link.launch(libraries[which], (own, b, c), shape)

    def communicate() -> None:
        dist.all_gather_into_tensor(a, own)

    def product() -> None:
        torch.mm(a, b.t(), out=c)

    def plain() -> None:
        libraries["plain"].product(
            *(ctypes.c_void_p(x.data_ptr()) for x in (a, b, c)), *shape, pair.units, pair.stream
        )

    def one_after_the_other() -> None:
        communicate()
        product()

    def torchs() -> None:
        torch.ops.symm_mem.fused_all_gather_matmul(own, [b.t()], 0, pair.group)

    communicate()
    for which in ("gather", "gather, warps send"):
        c.fill_(float("nan"))
        pair.meet()
        ours(which)()
        pair.meet()
        at = _sample(pair, m), _sample(pair, n)
        left, right = a[at[0]].double(), b[at[1]].double()
        bound = cut_sums(k) * (left.abs() @ right.abs().T) + 2.0**-8 * (left @ right.T).abs()
        _near(pair, c[at[0]][:, at[1]].double(), left @ right.T, bound, f"{which} at {shape}")
    launches = {"ours": ours("gather"), "our product": plain, "product": product}
    if whole:
        launches |= {"ours, warps send": ours("gather, warps send"), "communication": communicate,
                     "one after the other": one_after_the_other, "torch": torchs}  # fmt: skip
    return pair.times(_possible(launches), rounds)


def scatter(pair: Pair, libraries: Mapping[str, ctypes.CDLL], shape: tuple[int, int, int],
            rounds: int, whole: bool) -> dict[str, list[float]]:  # fmt: skip
    """The product of A (M, K) and B (N, K), of this GPU's part of K, then reduce-scatter."""
    torch, dist = pair.torch, pair.dist
    m, n, k = shape
    rows = m // 2
    a, b = pair.random(m, k), pair.random(n, k)
    part, c = (torch.empty(x, n, device=pair.device, dtype=torch.bfloat16) for x in (m, rows))
    strips = -(-rows // _STRIP) * -(-n // 256) * 8  # 16 rows of 256 columns, a flag each
    kinds = [which for which in libraries if which.startswith("scatter")]
    links = {which: Ours(pair, strips * 16 * 256, [1] * strips) for which in kinds}

    def ours(which: str, home: bool = False) -> Launch:
        return lambda: links[which].launch(libraries[which], (a, b, c), shape, home=home)

    def product() -> None:
        torch.mm(a, b.t(), out=part)

    def plain() -> None:
        libraries["plain"].product(
            *(ctypes.c_void_p(x.data_ptr()) for x in (a, b, part)), *shape, pair.units, pair.stream
        )

    def communicate() -> None:
        dist.reduce_scatter_tensor(c, part)

    def one_after_the_other() -> None:
        product()
        communicate()

    def torchs() -> None:
        torch.ops.symm_mem.fused_matmul_reduce_scatter(a, b.t(), "sum", 0, pair.group)

    at = _sample(pair, rows), _sample(pair, n)
    exact, bound = _reduced(pair, a, b, at)
    for which in kinds:
        c.fill_(float("nan"))
        pair.meet()
        ours(which)()
        pair.meet()
        _near(pair, c[at[0]][:, at[1]].double(), exact, bound, f"{which} at {shape}")
    launches = {"ours": ours("scatter"), "our product": plain, "product": product}
    if whole:
        for which in kinds:
            name = which.replace("scatter", "ours")
            launches[name] = ours(which)
            if which in STAY:  # a control whose results are wrong: flags alone cross the link
                launches[f"{name}, parts stay"] = ours(which, home=True)
        launches |= {"communication": communicate, "one after the other": one_after_the_other,
                     "torch": torchs}  # fmt: skip
    return pair.times(_possible(launches), rounds)


def _reduced(pair: Pair, a: Any, b: Any, at: tuple[Any, Any]) -> tuple[Any, Any]:
    """This GPU's sums at some of its rows and columns, and how far a result may be from each."""
    rows = a.shape[0] // 2
    for half in range(2):  # its owner's result, and everybody's part of it
        left, right = a[at[0] + half * rows].double(), b[at[1]].double()
        exact, sizes = left @ right.T, left.abs() @ right.abs().T
        rounding = exact.abs() if half != pair.rank else pair.torch.zeros_like(exact)
        for tensor in (exact, sizes, rounding):
            pair.dist.all_reduce(tensor)
        if half == pair.rank:
            bound = cut_sums(a.shape[1]) * sizes + 2.0**-8 * 1.01 * (rounding + exact.abs())
            mine = exact, bound
    return mine


def _possible(launches: Mapping[str, Launch]) -> dict[str, Launch]:
    """All but torch's operator where this torch refuses it; says why."""
    try:
        launches.get("torch", lambda: None)()
    except RuntimeError as error:
        print(f"torch's operator does not run: {error}", flush=True)
        return {name: launch for name, launch in launches.items() if name != "torch"}
    return dict(launches)


def _sample(pair: Pair, count: int) -> Any:
    """Rows or columns, the last among them, the same in both processes."""
    drawn = random.Random(14).choices(range(count), k=_SAMPLE - 1)
    return pair.torch.tensor([count - 1, *drawn], device=pair.device)


def _near(pair: Pair, got: Any, exact: Any, bound: Any, what: str) -> None:
    if not bool(((got - exact).abs() <= bound).all()):
        raise SystemExit(f"GPU {pair.rank}: {what} is wrong: look at it on the emulator first")


def main(rank: int, plan: dict[str, Any]) -> None:
    """Measure what the plan asks for."""
    pair = Pair(rank, plan["port"])
    libraries = {name: ctypes.CDLL(path) for name, path in plan["libraries"].items()}
    found: list[dict[str, Any]] = []
    for kind, rounds, whole, shape in plan["cases"]:
        measured = {"gather": gather, "scatter": scatter}[kind]
        times = measured(pair, libraries, tuple(shape), rounds, whole)
        found.append({"kind": kind, "shape": shape, "whole": whole, "times_us": times})
        print(kind, shape, flush=True)
        if rank == 0:
            Path(plan["result"]).write_text(json.dumps(found), "utf-8")
        pair.torch.cuda.empty_cache()
    pair.meet()
    pair.dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text("utf-8")))
