"""Plans of the chapter's kernels and cuBLAS by turns, in one process and in random order.

Needs torch, for cuBLAS and for the check.
"""

from __future__ import annotations

import ctypes
import random
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from phasebit import toolchain
from phasebit.chapters.every_shape import plans, tries
from phasebit.chapters.every_shape.choice import PAIRS_EVERYWHERE, choose
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.chapters.every_shape.tries import Tried
from phasebit.instruments import beside_torch, clocks
from phasebit.instruments.beside_torch import Launch
from phasebit.instruments.clocks import Clocks

VENDOR = "cuBLAS"
Times = dict[str, dict[str, list[float]]]
"""Contender -> ``warm_us`` and ``flushed_us`` of its launches, ``mhz`` of the warm ones."""

MAJORS = {"": "K innermost", "A": "M innermost in A", "B": "N innermost in B",
          "AB": "M and N innermost"}  # fmt: skip
"""Which transposes are given -> in words."""

_CHOOSING, _ROUNDS, _FLUSHED = 4, 12, 3
_REST = 0.01  # seconds before each turn, in which the clock rises again
_GRAPH_US = 2000.0  # a graph holds launches for about so long
_AHEAD, _MOST_AHEAD = 600_000, 40_000_000
"""Cycles that the GPU waits before flushed launches, at first and at most, for the host to be
ahead."""
_LATE = 50  # tries in which the host may not be
_PARTIAL, _READY = 132 * 128 * 256, 264  # of product.cuh


def any_text(shape: Shape) -> str:
    """The kernel that takes any shape, with constants for this one."""
    small = shape.m < 2000
    return plans.with_constants(
        plans.source(plans.ANY), GROUPS=1 if small else 2, BN=128, SLOTS=8 if small else 6
    ).replace("#define OUT float", "#define OUT __nv_bfloat16")


def protocol(torch: Any) -> dict[str, str]:
    """What one needs to repeat the times."""
    return {
        "warm": f"launches in a CUDA graph, as many as take about {_GRAPH_US / 1e3:g} ms (at least "
        "4, at most 40); of two replays the first does not count, and the time of the second is "
        "divided by them; mhz: the multiprocessors' clock over it, the median multiprocessor",
        "flushed": f"a launch between two events, after 256 MiB of other data have been read; "
        f"{_FLUSHED} in each round, which the host asks for while the GPU waits, a third of a "
        "millisecond or, where the host was late, twice as long as before; what it was late for is "
        "made anew",
        "order": "rounds, in each the contenders in a new random order; a rest of "
        f"{_REST * 1e3:g} ms before each turn",
        "choice": f"{_CHOOSING} rounds with all plans; the fastest is the one whose warm and "
        f"flushed time have the least product. It, the model's choice and cuBLAS are then timed "
        f"anew, in {_ROUNDS} rounds",
        "inputs": "normal random bf16 numbers, A (M, K) and B (N, K) row-major, f32 sums, bf16 "
        "results; the same operands in every launch",
        "check": "before timing, all of C against a product in f32, within 2⁻⁸·|c| + 2·10⁻³·√K; C "
        "is full of NaN before",
        "early": "launches of ours ask to begin before the one before them has ended, where the "
        "plan does not say otherwise; cuBLAS's do not",
        "vendor": f"cuBLAS through torch {torch.__version__}, torch.mm, the same operands",
    }


def loaded(texts: Iterable[str]) -> dict[str, ctypes.CDLL]:
    """Text -> its library, compiled side by side, for :class:`Bench`.

    Raises :class:`toolchain.CompileError` for a text that does not compile.
    """
    return clocks.libraries(
        lambda text: toolchain.build(text, name="every_shape", target="sm_90a", library=True),
        dict.fromkeys(texts),
    )


class Bench:
    """Torch, the built kernels, and what they need in the GPU's memory."""

    def __init__(self, torch: Any, libraries: dict[str, ctypes.CDLL]) -> None:
        self._torch = torch
        self._libraries = libraries
        self._units = torch.cuda.get_device_properties(0).multi_processor_count
        self._partial = torch.empty(_PARTIAL, device="cuda")
        self._ready = torch.zeros(_READY, dtype=torch.int32, device="cuda")
        self._other = torch.zeros(64 << 20, device="cuda")
        self._clocks = Clocks(torch)
        self._ahead = _AHEAD

    def shape(self, shape: Shape, contenders: Sequence[Plan]) -> dict[str, Any]:
        """Some plans at a shape: all, to choose from them, and then the chosen ones anew."""
        launches = self._checked(shape, self._plans(shape, {str(p): p.text for p in contenders}))
        graphs = self._graphs(shape, launches)
        first = self._by_turns(shape, launches, graphs, _CHOOSING)
        chosen, fastest = str(choose(shape)), fastest_of(first)
        kept = dict.fromkeys((fastest, chosen, str(PAIRS_EVERYWHERE), VENDOR))
        times = self._by_turns(shape, _only(launches, kept), graphs, _ROUNDS)
        ratios = (
            statistics.median(times[VENDOR][way]) / statistics.median(times[fastest][way])
            for way in ("warm_us", "flushed_us")
        )
        print(f"⏱ {shape}: {fastest}, {' / '.join(f'{r:.3f}' for r in ratios)} of cuBLAS")
        return {"shape": list(shape), "chosen": chosen, "fastest": fastest, "all": first,
                "times": times}  # fmt: skip

    def side_by_side(
        self, shape: Shape, texts: dict[str, str],
        others: dict[str, Callable[..., Launch]] | None = None,
    ) -> dict[str, Any]:
        """Some kernels by name, beside cuBLAS; ``others``: name -> a launch from A, B and C."""
        makers = self._plans(shape, texts) | (others or {})
        return {"shape": list(shape), "times": self._times(shape, makers)}

    def makers(
        self, shape: Shape, texts: dict[str, str], others: dict[str, Callable[..., Launch]]
    ) -> dict[str, Any]:
        """Kernels named ``"maker: kernel"``: all, to choose of each maker, and then those anew."""
        launches = self._checked(shape, self._plans(shape, texts) | others)
        graphs = self._graphs(shape, launches)
        first = self._by_turns(shape, launches, graphs, _CHOOSING)
        of_makers: dict[str, Times] = {}
        for name, times in first.items():
            of_makers.setdefault(name.partition(":")[0], {})[name] = times
        kept = [VENDOR, *(fastest_of(each) for who, each in of_makers.items() if who != VENDOR)]
        again = self._by_turns(shape, _only(launches, kept), graphs, _ROUNDS)
        return {"shape": list(shape), "all": first, "times": again}

    def rows(self, shape: Shape, text: str, names: tuple[str, str]) -> dict[str, Any]:
        """A kernel and cuBLAS on the same numbers: as they are, and with zeros behind each row.

        ``names``: of the two. The zeros go up to a multiple of 128 bytes.
        """
        torch, wide = self._torch, -(-shape.k // 64) * 64
        a, b, c = self._matrices(shape)
        even_a, even_b = (
            torch.zeros(rows, wide, device="cuda", dtype=torch.bfloat16)
            for rows in (shape.m, shape.n)
        )
        even_a[:, : shape.k], even_b[:, : shape.k] = a, b
        longer = Shape(shape.m, shape.n, wide)
        left, right = even_a[:, : shape.k], even_b[:, : shape.k].t()
        launches = {
            names[0]: self._plans(shape, {"it": text})["it"](a, b, c),
            names[1]: self._plans(longer, {"it": text})["it"](even_a, even_b, c),
        }
        for name, launch in launches.items():
            self._check(shape, name, launch, (a, b, c))
        launches[f"{VENDOR}, {names[0]}"] = lambda: torch.mm(a, b.t(), out=c)
        launches[f"{VENDOR}, {names[1]}"] = lambda: torch.mm(left, right, out=c)
        graphs = self._graphs(shape, launches)
        return {"shape": list(shape), "times": self._by_turns(shape, launches, graphs, _ROUNDS)}

    def majors(self, shape: Shape, plan: Plan) -> dict[str, Any]:
        """A plan and cuBLAS, with A, B or both given as their transposes."""
        torch = self._torch
        a, b, c = self._matrices(shape)
        other_a, other_b = a.t().contiguous(), b.t().contiguous()
        launches: dict[str, Launch] = {}
        for across, words in MAJORS.items():
            given = (other_a if "A" in across else a, other_b if "B" in across else b)
            text = replace(plan, across=across).text
            launches[words] = self._plans(shape, {"it": text})["it"](*given, c)
            self._check(shape, words, launches[words], (a, b, c))
            left = other_a.t() if "A" in across else a
            right = other_b if "B" in across else b.t()
            launches[f"{VENDOR}, {words}"] = partial(torch.mm, left, right, out=c)
        graphs = self._graphs(shape, launches)
        return {"shape": list(shape), "times": self._by_turns(shape, launches, graphs, _ROUNDS)}

    def tries(self) -> dict[str, Any]:
        """What was tried at the small square, beside the plan that it changes."""
        shape = tries.SMALL_SQUARE
        texts = {name: each.text for name, each in tries.TRIES.items()}
        texts[tries.BASE] = tries.part("whole")
        return {"shape": list(shape), "times": self._times(shape, self._plans(shape, texts))}

    def further(self, tried: Tried) -> dict[str, Any]:
        """What was tried at another shape, beside the plan meant for it."""
        texts = {str(plan): plan.text for plan in (tried.base, *tried.plans)}
        times = self._times(tried.shape, self._plans(tried.shape, texts))
        return {"shape": list(tried.shape), "base": str(tried.base), "times": times}

    def parts(self, shape: Shape) -> dict[str, Any]:
        """A kernel without some of its work; what it computes then is not looked at."""
        return self.changed(shape, {name: tries.part(name) for name in tries.PARTS}, ("whole",))

    def changed(
        self, shape: Shape, texts: dict[str, str], right: Iterable[str]
    ) -> dict[str, Any]:
        """Kernels by name, beside cuBLAS; of those that are not ``right``, only the time counts."""
        return {"shape": list(shape), "times": self._times(shape, self._plans(shape, texts), right)}

    def any(self, shape: Shape) -> dict[str, Any]:
        """Rows that the copy engine refuses: with the copy into other rows, and without."""
        torch, wide = self._torch, -(-shape.k // 8) * 8
        library = self._libraries[any_text(shape)]
        a, b, c = self._matrices(shape)
        padded = torch.empty((shape.m + shape.n) * wide, dtype=torch.bfloat16, device="cuda")
        even_a, even_b, _ = self._matrices(Shape(shape.m, shape.n, wide))

        def ours(left: Any, right: Any, k: int) -> Launch:
            pointers = beside_torch.pointers((left, right, c))
            one, zero = ctypes.c_float(1), ctypes.c_float(0)
            return lambda: library.product_any(
                *pointers, shape.m, shape.n, k, *beside_torch.pointers([padded]), one, zero,
                self._stream(),
            )  # fmt: skip

        launches = {
            "copied into other rows": ours(a, b, shape.k),
            "K rounded up by its owner": ours(even_a, even_b, wide),
            VENDOR: lambda: torch.mm(a, b.t(), out=c),
        }
        self._check(shape, "copied into other rows", launches["copied into other rows"], (a, b, c))
        graphs = self._graphs(shape, launches)
        return {"shape": list(shape), "times": self._by_turns(shape, launches, graphs, _ROUNDS)}

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _matrices(self, shape: Shape) -> tuple[Any, Any, Any]:
        torch = self._torch
        a, b = (
            torch.randn(rows, shape.k, device="cuda", dtype=torch.bfloat16)
            for rows in (shape.m, shape.n)
        )
        return a, b, torch.empty(shape.m, shape.n, device="cuda", dtype=torch.bfloat16)

    def _plans(self, shape: Shape, texts: dict[str, str]) -> dict[str, Callable[..., Launch]]:
        def maker(library: ctypes.CDLL) -> Callable[..., Launch]:
            def make(a: Any, b: Any, c: Any) -> Launch:
                pointers = beside_torch.pointers((a, b, c))
                room = beside_torch.pointers((self._partial, self._ready))
                return lambda: library.product(
                    *pointers, *shape, self._units, *room, self._stream()
                )

            return make

        return {name: maker(self._libraries[text]) for name, text in texts.items()}

    def _checked(
        self, shape: Shape, makers: dict[str, Callable[..., Launch]], exact: Iterable[str] = ()
    ) -> dict[str, Launch]:
        """Launches on new matrices, and the vendor's; those of ``exact``, or all, are checked."""
        a, b, c = self._matrices(shape)
        launches = {name: make(a, b, c) for name, make in makers.items()}
        for name in tuple(exact) or tuple(launches):
            self._check(shape, name, launches[name], (a, b, c))
        return {**launches, VENDOR: lambda: self._torch.mm(a, b.t(), out=c)}

    def _times(
        self, shape: Shape, makers: dict[str, Callable[..., Launch]], exact: Iterable[str] = ()
    ) -> Times:
        launches = self._checked(shape, makers, exact)
        return self._by_turns(shape, launches, self._graphs(shape, launches), _ROUNDS)

    def _check(self, shape: Shape, name: str, launch: Launch, matrices: Any) -> None:
        a, b, c = matrices
        c.fill_(float("nan"))
        launch()
        right = a.float() @ b.float().t()
        off = ((c.float() - right).abs() - 2.0**-8 * right.abs()).max().item()
        if not off <= 2e-3 * shape.k**0.5 or int(self._ready.abs().sum()):
            raise toolchain.CudaError(f"{name} is wrong at {shape}")

    def _graphs(self, shape: Shape, launches: dict[str, Launch]) -> dict[str, Any]:
        """Name -> a CUDA graph of many launches."""
        torch, graphs = self._torch, {}
        for name, launch in launches.items():
            launch()
            torch.cuda.synchronize()
            graphs[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graphs[name]):
                for _ in range(_launches(shape)):
                    launch()
        return graphs

    def _by_turns(
        self, shape: Shape, launches: dict[str, Launch], graphs: dict[str, Any], rounds: int
    ) -> Times:
        found: Times = {name: {"warm_us": [], "flushed_us": [], "mhz": []} for name in launches}
        order = list(launches)
        draw = random.Random(str(shape))
        for _ in range(rounds):
            draw.shuffle(order)
            for name in order:
                time.sleep(_REST)
                graphs[name].replay()
                self._clocks.look(0)
                (us,) = beside_torch.timed(self._torch, graphs[name].replay, 1)
                self._clocks.look(1)
                found[name]["warm_us"].append(round(us / _launches(shape), 3))
                found[name]["mhz"].append(self._clocks.mhz())
                found[name]["flushed_us"] += self._flushed(launches[name])
        return found

    def _flushed(self, launch: Launch, between: Launch | None = None) -> list[float]:
        """Microseconds of launches that the host asked for before the GPU came to them.

        ``between``: what runs after the other data have been read, and is not timed.

        Where the host was late, a launch's time holds what the GPU waited for it: all are made
        anew. Raises :class:`toolchain.CudaError` when the host is late again and again.
        """
        torch = self._torch
        for _ in range(_LATE):
            ends = []
            torch.cuda._sleep(self._ahead)
            waited = torch.cuda.Event()
            waited.record()
            for _ in range(_FLUSHED):
                self._other.sum()
                if between is not None:
                    between()
                ends.append([torch.cuda.Event(enable_timing=True) for _ in range(2)])
                ends[-1][0].record()
                launch()
                ends[-1][1].record()
            ahead = not waited.query()
            torch.cuda.synchronize()
            if not ahead:
                self._ahead = min(2 * self._ahead, _MOST_AHEAD)
            else:
                return [round(begin.elapsed_time(end) * 1e3, 2) for begin, end in ends]
        raise toolchain.CudaError(
            f"the host asks for {_FLUSHED} launches too slowly, {_LATE} times in a row: is it busy?"
        )

def _only(launches: dict[str, Launch], names: Iterable[str]) -> dict[str, Launch]:
    return {name: launches[name] for name in names}


def _launches(shape: Shape) -> int:
    """So many in a graph."""
    return max(4, min(40, int(_GRAPH_US / (shape.flop / 500e12 * 1e6 + 6))))


def fastest_of(times: Times) -> str:
    """The contender, not the vendor, whose warm and flushed time have the least product."""
    return min(
        (name for name in times if name != VENDOR),
        key=lambda name: statistics.median(times[name]["warm_us"])
        * statistics.median(times[name]["flushed_us"]),
    )
