"""The fetching kernel beside the fused one, and the grouped one that has its tiles, by turns.

Each thing that the fetching kernel does otherwise is taken back alone. So is each that the grouped
kernel got: tiles of 256 columns, and the way along a row of tiles first.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

from phasebit import measure, toolchain
from phasebit.chapters.epilogues_and_groups import epilogue_bench as benchmark
from phasebit.chapters.epilogues_and_groups import epilogues
from phasebit.chapters.epilogues_and_groups.epilogue_bench import (
    CUBLAS,
    CUBLASLT,
    GROUPED,
    LONG,
    LOOP,
    PLAIN,
    SHORT,
    SQUARE,
    TORCHS,
    Operands,
)
from phasebit.chapters.epilogues_and_groups.epilogues import FETCHED, FUSED, GROUPS, STEPS
from phasebit.edits import replace_each
from phasebit.instruments import beside_torch, clocks

NAME = "epilogues_fetched"
FLAT = 4096, 4096, 512
"""Where what is taken back is measured."""
TURNS, SHARED, FIRST = "fetched, by turns", "fetched, together", "fused"
SMALL_TILES, DOWN = "grouped, tiles of 128 columns", "grouped, down the columns"
ONE, ONE_CUBLAS = "one product of all rows, together", benchmark.ONE_CUBLAS

Edits = tuple[tuple[str, str], ...]

_DOWN: Edits = (
    ("return (number - first_tile) / over(all.N, BN) * BM;",
     "return (number - first_tile) % over(size(), BM) * BM;"),
    ("{ return (number - first_tile) % over(all.N, BN) * BN; }",
     "{ return (number - first_tile) / over(size(), BM) * BN; }"),
)  # fmt: skip


class Taken(NamedTuple):
    """The fetching kernel with a chain of steps, and what is otherwise in it."""

    steps: tuple[str, ...]
    edits: Edits = ()
    together: bool = False


BACK = {
    PLAIN: Taken(()),
    "alpha, GELU": Taken(("Alpha", "Gelu")),
    SHORT: Taken(benchmark.CHAINS[SHORT]),
    LONG: Taken(STEPS),
    f"{LONG} but the residual": Taken(tuple(step for step in STEPS if step != "Residual")),
    f"{LONG}, GELU by erff": Taken(STEPS, (("GeluByTail,", "Gelu,"),)),
    f"{LONG}, every box in full": Taken(
        STEPS, (("#pragma unroll 1  // its code is fetched once\n", "#pragma unroll\n"),)),
    f"{LONG}, each lane its warp": Taken(
        STEPS, (("__shfl_sync(~0u, threadIdx.x / 32, 0);  // known to be one a warp",
                 "threadIdx.x / 32;"),)),
}  # fmt: skip
"""Contenders at :data:`FLAT`, all by turns."""
ORDERS = {
    f"{PLAIN}, bands of {high}": Taken((), (("BAND = 16;", f"BAND = {high};"),), together=True)
    for high in (64, 8)
} | {f"{PLAIN}, bands of 16": Taken((), (), together=True)}
"""Contenders at 8192³: how many rows of tiles are walked together; 64 are all."""


def text(taken: Taken) -> str:
    """That kernel; raises ``ValueError`` where an edit does not fit."""
    built = benchmark.text(FETCHED, taken.steps)
    built = epilogues.together(built) if taken.together else built
    return replace_each(built, taken.edits, f"{FETCHED}.cu")


def grouped(name: str) -> str:
    """A grouped kernel by its name here; raises as :func:`text` does."""
    built = benchmark.text(GROUPS)
    if name == SMALL_TILES:
        built = epilogues.with_constants(built, TEAM=1, BN=128, SLOTS=6, BOXES=2)
    return replace_each(built, _DOWN if name == DOWN else (), f"{GROUPS}.cu")


def texts() -> dict[str, str]:
    """All libraries."""
    found = {f"back: {name}": text(taken) for name, taken in (BACK | ORDERS).items()}
    for chain, steps in benchmark.CHAINS.items():
        found[f"{TURNS}: {chain}"] = text(Taken(steps))
        found[f"{SHARED}: {chain}"] = text(Taken(steps, together=True))
        found[f"{FIRST}: {chain}"] = benchmark.text(FUSED, steps)
    return found | {name: grouped(name) for name in (GROUPED, SMALL_TILES, DOWN)}


def build(name: str) -> toolchain.Build:
    """One of :func:`texts`."""
    return toolchain.build(texts()[name], name=NAME, target="sm_90a", library=True)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    built = clocks.built(build, texts())
    bench = Bench(torch, {name: ctypes.CDLL(str(each.program)) for name, each in built.items()})
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **benchmark.timing(),
            "check": "before timing, all of C against torch in f32, within 2⁻⁷·|c| + 2·10⁻³·√K, "
            "and amax; C is full of NaN before",
            "vendor": f"torch {torch.__version__}, same process: torch.mm is cuBLAS, "
            "_addmm_activation cuBLASLt's epilogue of bias and GELU by tanh, _grouped_mm torch's "
            "own; then one kernel: cuBLAS, then all steps in a kernel of ours",
        },
        "registers": {
            name: next(u.registers for u in each.resources if "matmul" in u.kernel)
            for name, each in built.items()
        },
        "epilogues": [bench.shape(*shape) for shape in benchmark.SHAPES],
        "hidden": [bench.shape(SQUARE, SQUARE, k) for k in benchmark.DEPTHS if k != FLAT[2]],
        "back": bench.some({name: f"back: {name}" for name in BACK}, FLAT),
        "orders": bench.some({name: f"back: {name}" for name in ORDERS}, benchmark.SHAPES[0]),
        "groups": [bench.groups(mean) for mean in benchmark.ROWS],
        "refused": bench.refused,
    }


class Bench:
    """Torch and the built kernels."""

    def __init__(self, torch: Any, libraries: dict[str, ctypes.CDLL]) -> None:
        from phasebit.chapters.epilogues_and_groups import record as first

        self._torch, self._libraries = torch, libraries
        fused = {("by turns", chain): libraries[f"{FIRST}: {chain}"] for chain in benchmark.CHAINS}
        self._first = first.Bench(torch, fused, libraries[GROUPED])
        self._units = torch.cuda.get_device_properties(0).multi_processor_count
        self.refused = self._first.refused

    def shape(self, m: int, n: int, k: int) -> dict[str, Any]:
        """Each chain in each way."""
        given = Operands(self._torch, m, n, k)
        launches: dict[str, beside_torch.Launch] = {CUBLAS: given.product}
        for chain in benchmark.CHAINS:
            for way in (FIRST, TURNS, SHARED):
                launch = launches[f"{chain}, {way}"] = self._ours(f"{way}: {chain}", given)
                self._first.check(launch, chain, given)
            if chain != PLAIN:
                launches[f"{chain}, then one kernel"] = self._first.then(chain, given)
        launches[CUBLASLT] = given.activated
        return {"shape": [m, n, k], "times": self._timed(launches, m, n, k)}

    def some(self, names: dict[str, str], shape: tuple[int, int, int]) -> dict[str, Any]:
        """Contenders of one shape, and cuBLAS."""
        given = Operands(self._torch, *shape)
        launches = {name: self._ours(library, given) for name, library in names.items()}
        for name, launch in launches.items():
            self._first.near(launch, given, (BACK | ORDERS)[name].steps, name)
        launches[CUBLAS] = given.product
        return self._timed(launches, *shape)

    def groups(self, mean: int) -> dict[str, Any]:
        """Products of a mixture of experts, and one of as many rows."""
        case = self._first.experts(mean)
        one = Operands(self._torch, case.rows, case.n, case.k)
        launches: dict[str, beside_torch.Launch] = {
            name: case.ours(self._libraries[name]) for name in (GROUPED, SMALL_TILES, DOWN)
        }
        for name, launch in launches.items():
            case.check(launch, name)
        launches |= {
            LOOP: case.loop, TORCHS: case.torchs,
            ONE: self._ours(f"{SHARED}: {PLAIN}", one), ONE_CUBLAS: one.product,
        }  # fmt: skip
        self._first.check(launches[ONE], PLAIN, one)
        us = benchmark.guessed(case.rows, case.n, case.k) + 180
        found = benchmark.in_graphs(self._torch, launches, us, self.refused)
        return {"mean": mean, "sizes": case.sizes, "n": case.n, "k": case.k, "times": found}

    def _ours(self, name: str, x: Operands) -> beside_torch.Launch:
        product = self._libraries[name].product
        torch = self._torch
        return lambda: product(
            *x.pointers, *x.shape, *x.given, *x.numbers, self._units,
            ctypes.c_void_p(torch.cuda.current_stream().cuda_stream),
        )  # fmt: skip

    def _timed(
        self, launches: dict[str, beside_torch.Launch], m: int, n: int, k: int
    ) -> dict[str, Any]:
        us = benchmark.guessed(m, n, k)
        return benchmark.in_graphs(self._torch, launches, us, self.refused)
