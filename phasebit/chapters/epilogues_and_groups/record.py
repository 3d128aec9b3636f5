"""*Epilogues and groups*: fused against apart, hidden and not, groups against a loop, by turns.

Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import (
    epilogue_controls,
    epilogue_orders,
    epilogues,
    fetching,
)
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

FURTHER = (epilogue_controls.NAME, epilogue_orders.NAME, fetching.NAME)

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
    """Measure on this machine's GPU; what an epilogue's time is made of, and what the
    fetching kernel does to it, is saved beside it.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong, :class:`toolchain.ToolMissing` without Nsight Compute.
    """
    facts = measure.facts()
    measure.save(epilogue_controls.record())
    measure.save(epilogue_orders.record())
    measure.save(fetching.record())
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
            self.check(launches[f"{name}, fused"], name, given)
            if name == PLAIN:
                launches[CUBLAS] = given.product
                continue
            launches[f"{name}, apart"] = given.apart(name)
            launches[f"{name}, then one kernel"] = self.then(name, given)
            self.check(launches[f"{name}, then one kernel"], name, given, coarse=True)
        launches[CUBLASLT] = given.activated
        return {"shape": [m, n, k], "times": self._timed(launches, m, n, k)}

    def depth(self, k: int) -> dict[str, Any]:
        """Square results with K = ``k``: each chain, in both orders of the groups."""
        given = Operands(self._torch, SQUARE, SQUARE, k)
        launches = {}
        for order in TEAMS:
            for chain in CHAINS:
                launches[f"{order}, {chain}"] = self._ours(order, chain, given)
                self.check(launches[f"{order}, {chain}"], chain, given)
        return {"k": k, "times": self._timed(launches, SQUARE, SQUARE, k)}

    def experts(self, mean: int) -> Experts:
        """Products of a mixture of experts with so many rows each, on average."""
        return Experts(self._torch, mean, self._units)

    def groups(self, mean: int) -> dict[str, Any]:
        """Products of a mixture of experts: ours, a loop of cuBLAS, torch's, and one of all."""
        torch, case = self._torch, self.experts(mean)
        ours, one = case.ours(self._grouped), Operands(torch, case.rows, case.n, case.k)
        case.check(ours, "the grouped product")
        launches: dict[str, beside_torch.Launch] = {
            GROUPED: ours, LOOP: case.loop, ONE: self._ours("by turns", PLAIN, one),
            ONE_CUBLAS: one.product, TORCHS: case.torchs,
        }  # fmt: skip
        self.check(launches[ONE], PLAIN, one)
        us = guessed(case.rows, case.n, case.k) + 180
        found = in_graphs(torch, launches, us, self.refused)
        case.loop()
        found[ASKED] = {"us": beside_torch.timed(torch, case.loop, ROUNDS), "mhz": []}
        return {"mean": mean, "sizes": case.sizes, "n": case.n, "k": case.k, "times": found}

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _ours(self, order: str, chain: str, x: Operands) -> beside_torch.Launch:
        product = self._fused[order, chain].product
        return lambda: product(
            *x.pointers, *x.shape, *x.given, *x.numbers, self._units, self._stream()
        )

    def then(self, chain: str, x: Operands) -> beside_torch.Launch:
        steps = self._fused["by turns", chain].chain
        m, n, _ = x.shape

        def launch() -> None:
            x.product()
            steps(x.pointers[2], m, n, *x.given, *x.numbers, self._stream())

        return launch

    def check(
        self, launch: beside_torch.Launch, chain: str, x: Operands, coarse: bool = False
    ) -> None:
        """``coarse``: the sums were rounded to bf16 before the steps, too."""
        m, n, k = x.shape
        x.c.fill_(float("nan"))
        x.amax.zero_()
        launch()
        right = x.right(chain)
        what = f"{chain} at {m} × {n} × {k}"
        near(x.c, right, k, what, 2.0**-6 * right.abs().max().item() if coarse else 0)
        most = x.amax.view(self._torch.float32).item()
        if chain == LONG and not coarse and not (
            abs(most - right.abs().max().item()) <= 2e-3 * k**0.5
        ):
            raise toolchain.CudaError(f"{what} has a wrong amax: {most}")

    def _timed(
        self, launches: dict[str, beside_torch.Launch], m: int, n: int, k: int
    ) -> dict[str, Any]:
        return in_graphs(self._torch, launches, guessed(m, n, k), self.refused)

    def near(
        self, launch: beside_torch.Launch, x: Operands, steps: tuple[str, ...], what: str
    ) -> None:
        """Whether any chain of steps is right."""
        x.c.fill_(float("nan"))
        launch()
        near(x.c, x.steps(steps), x.shape[2], what)


class Experts:
    """A mixture of experts: matrices, and the ways to multiply them."""

    def __init__(self, torch: Any, mean: int, units: int) -> None:
        half = {"device": "cuda", "dtype": torch.bfloat16}
        torch.manual_seed(mean)
        self._torch, self._units, self.n, self.k = torch, units, INNER, HIDDEN
        self.sizes = torch.poisson(torch.full((EXPERTS,), float(mean))).int().tolist()
        self.sizes[0] = 0
        self.rows = sum(self.sizes)
        self._a, self._b, self._c = (
            torch.randn(*size, **half)
            for size in ((self.rows, self.k), (EXPERTS * self.n, self.k), (self.rows, self.n))
        )
        self._counts = torch.tensor(self.sizes, device="cuda", dtype=torch.int32)
        self._ends = self._counts.cumsum(0, dtype=torch.int32)
        self._scale = torch.ones(self.rows, device="cuda")
        self._maps = torch.zeros(
            units * epilogues.MAPS * 2 * 128, device="cuda", dtype=torch.uint8
        )
        self._weights = self._b.view(EXPERTS, self.n, self.k)
        starts = [sum(self.sizes[:g]) for g in range(EXPERTS)]
        self._filled = {
            g: slice(starts[g], starts[g] + self.sizes[g])
            for g in range(EXPERTS) if self.sizes[g]
        }  # fmt: skip

    def ours(self, library: ctypes.CDLL) -> beside_torch.Launch:
        """A launch of a grouped kernel."""
        first = beside_torch.pointers((self._a, self._b, self._c, self._counts))
        rest = beside_torch.pointers((self._scale, self._maps))
        torch = self._torch
        return lambda: library.product(
            *first, EXPERTS, self.rows, self.n, self.k, *rest, self._units,
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )  # fmt: skip

    def loop(self) -> None:
        """A product of cuBLAS for each group that has rows."""
        for g, at in self._filled.items():
            self._torch.mm(self._a[at], self._weights[g].T, out=self._c[at])

    def torchs(self) -> Any:
        """Torch's own grouped product."""
        weights = self._weights.transpose(1, 2)
        return self._torch._grouped_mm(self._a, weights, offs=self._ends)

    def check(self, launch: beside_torch.Launch, what: str) -> None:
        """Raises :class:`toolchain.CudaError` where a grouped kernel is wrong."""
        self._c.fill_(float("nan"))
        launch()
        right = self._torch.cat([self._a[at].float() @ self._weights[g].float().T
                                 for g, at in self._filled.items()])  # fmt: skip
        near(self._c, right, self.k, f"{what}, {self.rows} rows")


def near(got: Any, right: Any, k: int, what: str, more: float = 0) -> None:
    """Raises :class:`toolchain.CudaError` where a result is not within what the protocol says."""
    bound = 2.0**-7 * right.abs() + 2e-3 * k**0.5 + more
    if not bool(((got.float() - right).abs() <= bound).all()):
        raise toolchain.CudaError(f"{what} is wrong: look at it on the emulator first")
