"""*Epilogues and groups*: fused against apart, hidden and not, groups against a loop, by turns.

Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogue_controls, epilogues
from phasebit.chapters.epilogues_and_groups.epilogue_bench import (
    ASKED,
    CHAINS,
    CUBLAS,
    CUBLASLT,
    DEPTHS,
    EXPERTS,
    GROUPED,
    HIDDEN,
    INNER,
    LONG,
    LOOP,
    NAME,
    ONE,
    ONE_CUBLAS,
    PLAIN,
    ROUNDS,
    ROWS,
    SHAPES,
    SQUARE,
    TEAMS,
    TORCHS,
    Operands,
    build,
    guessed,
    in_graphs,
    timing,
)
from phasebit.chapters.epilogues_and_groups.epilogues import FUSED, GROUPS
from phasebit.instruments import beside_torch, clocks

FURTHER = (epilogue_controls.NAME,)

Libraries = dict[tuple[str, str], ctypes.CDLL]
"""(order of the groups, chain) -> a fused kernel."""


def built() -> tuple[Libraries, ctypes.CDLL, dict[str, int]]:
    """The fused kernels, the grouped one, and the registers of each fused one."""
    wanted = [(order, chain) for order in TEAMS for chain in CHAINS]
    with ThreadPoolExecutor(8) as pool:
        pool.submit(clocks.reader)
        grouped = pool.submit(build, GROUPS)
        made = list(pool.map(lambda w: build(FUSED, CHAINS[w[1]], TEAMS[w[0]]), wanted))
    registers = {
        f"{order}, {chain}": next(u.registers for u in one.resources if "matmul" in u.kernel)
        for (order, chain), one in zip(wanted, made, strict=True)
    }
    fused = {which: ctypes.CDLL(str(one.program)) for which, one in zip(wanted, made, strict=True)}
    return fused, ctypes.CDLL(str(grouped.result().program)), registers


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; what an epilogue's time is made of is saved beside it.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts = measure.facts()
    measure.save(epilogue_controls.record())
    torch = beside_torch.torch_here(NAME)
    fused, grouped, registers = built()
    bench = Bench(torch, fused, grouped)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch),
        "registers": registers,
        "epilogues": [bench.shape(*shape) for shape in SHAPES],
        "hidden": [bench.depth(k) for k in DEPTHS],
        "groups": [bench.groups(mean) for mean in ROWS],
        "refused": bench.refused,
    }


def _protocol(torch: Any) -> dict[str, str]:
    return {
        **timing(),
        "check": "before timing, all of C against torch in f32, within 2⁻⁷·|c| + 2·10⁻³·√K, and "
        "amax; C is full of NaN before",
        "apart": "cuBLAS, then torch's elementwise kernels, one for each step, in place; then one "
        "kernel: cuBLAS, then all steps in a kernel of ours, eight numbers a thread",
        "host": f"{ASKED}: the same calls without a graph, a product for each group that has rows",
        "vendor": f"torch {torch.__version__}, same process: torch.mm is cuBLAS; "
        "_addmm_activation is cuBLASLt's epilogue of bias and GELU, whose GELU is the tanh's; "
        "_grouped_mm is torch's own",
    }


class Bench:
    """Torch and the built kernels."""

    def __init__(self, torch: Any, fused: Libraries, grouped: ctypes.CDLL) -> None:
        self._torch, self._fused, self._grouped = torch, fused, grouped
        self._units = torch.cuda.get_device_properties(0).multi_processor_count
        self.refused: dict[str, str] = {}

    def shape(self, m: int, n: int, k: int) -> dict[str, Any]:
        """One product with three epilogues: fused, apart, apart in one kernel, and cuBLASLt's."""
        torch = self._torch
        given = Operands(torch, m, n, k)
        launches: dict[str, beside_torch.Launch] = {}
        for name in CHAINS:
            launches[f"{name}, fused"] = self._ours("by turns", name, given)
            self._check(launches[f"{name}, fused"], name, given)
            if name == PLAIN:
                launches[CUBLAS] = given.product
                continue
            launches[f"{name}, apart"] = given.apart(name)
            launches[f"{name}, then one kernel"] = self._then(name, given)
            self._check(launches[f"{name}, then one kernel"], name, given, coarse=True)
        launches[CUBLASLT] = given.activated
        return {"shape": [m, n, k], "times": self._timed(launches, m, n, k)}

    def depth(self, k: int) -> dict[str, Any]:
        """Square results with K = ``k``: each chain, in both orders of the groups."""
        given = Operands(self._torch, SQUARE, SQUARE, k)
        launches = {}
        for order in TEAMS:
            for chain in CHAINS:
                launches[f"{order}, {chain}"] = self._ours(order, chain, given)
                self._check(launches[f"{order}, {chain}"], chain, given)
        return {"k": k, "times": self._timed(launches, SQUARE, SQUARE, k)}

    def groups(self, mean: int) -> dict[str, Any]:
        """Products of a mixture of experts: ours, a loop of cuBLAS, torch's, and one of all."""
        torch = self._torch
        half = {"device": "cuda", "dtype": torch.bfloat16}
        torch.manual_seed(mean)
        sizes = torch.poisson(torch.full((EXPERTS,), float(mean))).int().tolist()
        sizes[0] = 0
        rows, n, k = sum(sizes), INNER, HIDDEN
        a, b, c = (torch.randn(*size, **half) for size in ((rows, k), (EXPERTS * n, k), (rows, n)))
        counts = torch.tensor(sizes, device="cuda", dtype=torch.int32)
        ends = counts.cumsum(0, dtype=torch.int32)
        scale = torch.ones(rows, device="cuda")
        maps = torch.zeros(
            self._units * epilogues.MAPS * 2 * 128, device="cuda", dtype=torch.uint8
        )
        first = beside_torch.pointers((a, b, c, counts))
        rest = beside_torch.pointers((scale, maps))
        weights = b.view(EXPERTS, n, k)
        starts = [sum(sizes[:g]) for g in range(EXPERTS)]
        filled = [g for g in range(EXPERTS) if sizes[g]]
        slices = [slice(starts[g], starts[g] + sizes[g]) for g in filled]

        def ours() -> None:
            self._grouped.product(
                *first, EXPERTS, rows, n, k, *rest, self._units, self._stream()
            )

        def loop() -> None:
            for g, at in zip(filled, slices, strict=True):
                torch.mm(a[at], weights[g].T, out=c[at])

        c.fill_(float("nan"))
        ours()
        right = torch.cat([a[at].float() @ weights[g].float().T
                           for g, at in zip(filled, slices, strict=True)])  # fmt: skip
        self._near(c, right, k, f"the grouped product of {mean} rows a group")
        one = Operands(torch, rows, n, k)
        launches: dict[str, beside_torch.Launch] = {
            GROUPED: ours, LOOP: loop, ONE: self._ours("by turns", PLAIN, one),
            ONE_CUBLAS: one.product,
            TORCHS: lambda: torch._grouped_mm(a, weights.transpose(1, 2), offs=ends),
        }  # fmt: skip
        self._check(launches[ONE], PLAIN, one)
        found = in_graphs(torch, launches, guessed(rows, n, k) + 180, self.refused)
        loop()
        found[ASKED] = {"us": beside_torch.timed(torch, loop, ROUNDS), "mhz": []}
        return {"mean": mean, "sizes": sizes, "n": n, "k": k, "times": found}

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _ours(self, order: str, chain: str, x: Operands) -> beside_torch.Launch:
        product = self._fused[order, chain].product
        return lambda: product(
            *x.pointers, *x.shape, *x.given, *x.numbers, self._units, self._stream()
        )

    def _then(self, chain: str, x: Operands) -> beside_torch.Launch:
        steps = self._fused["by turns", chain].chain
        m, n, _ = x.shape

        def launch() -> None:
            x.product()
            steps(x.pointers[2], m, n, *x.given, *x.numbers, self._stream())

        return launch

    def _check(
        self, launch: beside_torch.Launch, chain: str, x: Operands, coarse: bool = False
    ) -> None:
        """``coarse``: the sums were rounded to bf16 before the steps, too."""
        m, n, k = x.shape
        x.c.fill_(float("nan"))
        x.amax.zero_()
        launch()
        right = x.right(chain)
        what = f"{chain} at {m} × {n} × {k}"
        self._near(x.c, right, k, what, 2.0**-6 * right.abs().max().item() if coarse else 0)
        most = x.amax.view(self._torch.float32).item()
        if chain == LONG and not coarse and not (
            abs(most - right.abs().max().item()) <= 2e-3 * k**0.5
        ):
            raise toolchain.CudaError(f"{what} has a wrong amax: {most}")

    def _timed(
        self, launches: dict[str, beside_torch.Launch], m: int, n: int, k: int
    ) -> dict[str, Any]:
        return in_graphs(self._torch, launches, guessed(m, n, k), self.refused)

    def _near(self, got: Any, right: Any, k: int, what: str, more: float = 0) -> None:
        bound = 2.0**-7 * right.abs() + 2e-3 * k**0.5 + more
        if not bool(((got.float() - right).abs() <= bound).all()):
            raise toolchain.CudaError(f"{what} is wrong: look at it on the emulator first")
