"""*Eight bits*: products of e4m3 with scales, beside cuBLASLt; what is kept of sums; clock stamps.

Needs torch, for cuBLASLt and for the check.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import partial
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.eight_bits import lead, promotion_controls, sums
from phasebit.chapters.eight_bits.contenders import (
    CONTROLS,
    KERNELS,
    VARIANTS,
    source,
    stamped,
    variant,
)
from phasebit.instruments import beside_torch, clocks, rivals

NAME = "eight_bits"
FURTHER = (promotion_controls.NAME, lead.NAME)
SHAPES = (
    (8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (4096, 7168, 2048),
    (4096, 2048, 7168),
)  # fmt: skip
"""M, N, K: squares, and two products of a layer of DeepSeek-V3's width, 4096 tokens."""
ROUNDS, WARM, EACH, REST = 8, 3, 5, 0.01
RAGGED, LARGE = (1000, 1032, 1168), (4096, 4096, 1024)
_PLACES, _PASSES = 8, 256  # of include/stamps.cuh
_SUMS = {
    "e4m3": ((1, sums.NEVER), (32, sums.NEVER), (32, 4), (30, 4), (16, 1)),
    "bf16": ((32, sums.NEVER),),
}
"""Format -> how many instructions add up random numbers, and after how many they are promoted."""
STALLED = (64, 128, 256, 512)
"""Instructions that add up 0.75, 32 at a time."""

DEEP_GEMM = "DeepGEMM"

Operands = dict[str, Any]
Maker = Callable[[Any, Any, Any, Operands], beside_torch.Launch]
"""From A (M, K), B (N, K), C (M, N) and scales, what launches a kernel."""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; saves what :mod:`promotion_controls` and :mod:`lead` measure.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or
    is wrong. :mod:`lead` wants checkouts of rivals.
    """
    facts = measure.facts()
    measure.save(promotion_controls.record())
    if rivals.FOLDER in os.environ:
        measure.save(lead.record())
    else:
        print(f"⏱ no {lead.NAME}: {rivals.FOLDER} does not say where DeepGEMM and CUTLASS are")
    torch = beside_torch.torch_here(NAME)
    texts = {name: source(kernel) for name, kernel in KERNELS.items()}
    texts |= {name: variant(name) for name in VARIANTS} | {"stamps": stamped()}
    built = clocks.built(lambda name: _build(texts[name]), texts)
    loaded = {name: ctypes.CDLL(str(build.program)) for name, build in built.items()}
    makers: dict[str, Maker] = {
        name: partial(of_ours, torch, name, library) for name, library in loaded.items()
    }
    for name, make in makers.items():
        check(torch, name, make, (RAGGED, LARGE))
    refused: dict[str, str] = {}
    try:
        deep = rivals.deep_gemm()
        makers[DEEP_GEMM] = partial(_of_deep_gemm, deep)
        check(torch, DEEP_GEMM, makers[DEEP_GEMM], (LARGE,))
        versions = {DEEP_GEMM: str(deep.__version__)}
    except toolchain.CudaError as error:
        refused[DEEP_GEMM], versions = str(error), {}
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch),
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
        "products": [_products(torch, makers, shape, refused) for shape in SHAPES],
        "errors": [_errors(torch, makers, k, signs) for k in (1024, 8192) for signs in (1, 0)],
        "refused": refused,
        "versions": versions,
        "registers": {name: registers(build) for name, build in built.items()},
        "sums": _sums(),
        "stamps": _stamps(torch, loaded["stamps"], SHAPES[0]),
    }


def _protocol(torch: Any) -> dict[str, str]:
    return {
        "clock": "CUDA events before and after each launch; mhz: the multiprocessors' clock over "
        "the launches of a turn, from a kernel before them and one behind them that read it and "
        "the GPU's nanoseconds; the median multiprocessor",
        "order": f"{ROUNDS} rounds, the contenders in a new random order in each; a rest of "
        f"{REST:g} s before each turn, then {WARM} launches that do not count and {EACH} that do",
        "inputs": "normal random numbers, as e4m3; A (M, K) and B (N, K) row-major; results bf16; "
        "no flush between launches",
        "check": "before timing, on whole numbers, with scales all different where there are "
        "blocks: exact, for a ragged shape and a large one; DeepGEMM for the large one",
        "vendor": f"cuBLASLt through torch {torch.__version__}, torch._scaled_mm and "
        "torch.nn.functional.scaled_mm, the same operands",
        "errors": "the root of the mean square error over that of the product in f64 of the same "
        "numbers, 512 × 512 results in bf16, whose rounding is in it",
        "stamps": "the multiprocessor's clock, read in block 0 by a thread of each consumer, in a "
        "launch after one of the same; 8192³",
    }


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)


def registers(built: toolchain.Build) -> int:
    (used,) = [use.registers for use in built.resources if "matmul" in use.kernel]
    return used


def _in_blocks(name: str) -> bool:
    kernel = KERNELS.get(name) or VARIANTS.get(name, (KERNELS["block scales"],))[0]
    return kernel != KERNELS["one scale"]


def scales_of(torch: Any, m: int, n: int, k: int, draw: Callable[..., Any]) -> Operands:
    """Scales of both kinds; ``draw(rows, columns)`` gives them."""
    along, down, pitch = -(-k // 128), -(-n // 128), -(-m // 4) * 4
    a = torch.zeros(along, pitch, device="cuda")
    a[:, :m] = draw(along, m)
    return {"a": a, "b": draw(down, along), "whole": draw(1, 1)}


def of_ours(
    torch: Any, name: str, library: ctypes.CDLL, a: Any, b: Any, c: Any, scales: Operands
) -> beside_torch.Launch:
    """A launch of a kernel of ours, with the scales that it wants."""
    whole = scales["whole"]
    chosen = (scales["a"], scales["b"]) if _in_blocks(name) else (whole, whole)
    pointers = beside_torch.pointers((a, b, c, *chosen))
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    m, n, k = len(a), len(b), a.shape[1]
    return lambda: library.product(*pointers, m, n, k, units, stream)


def _of_deep_gemm(
    deep: Any, a: Any, b: Any, c: Any, scales: Operands
) -> beside_torch.Launch:
    """A launch of DeepGEMM's kernel; the scales lie already as it wants them."""
    left, right = (a, scales["a"][:, : len(a)].t()), (b, scales["b"])
    return lambda: deep.fp8_gemm_nt(left, right, c)


def check(
    torch: Any, name: str, make: Maker, shapes: tuple[tuple[int, int, int], ...],
    element: Any = None,
) -> None:  # fmt: skip
    """Whole numbers, for which every sum is exact; C is poisoned before each of three launches.

    ``element``: the format of A, where it is not e4m3.
    """
    if name in CONTROLS:
        return  # they are wrong, but for scales of 1
    for m, n, k in shapes:
        a, b = (torch.randint(-2, 3, (rows, k), device="cuda").float() for rows in (m, n))

        def powers(rows: int, columns: int) -> Any:
            return 2.0 ** torch.randint(-2, 2, (rows, columns), device="cuda")

        scales = scales_of(torch, m, n, k, powers)
        if _in_blocks(name):
            left = scales["a"][:, :m].T.repeat_interleave(128, 1)[:, :k].double()
            right = scales["b"].repeat_interleave(128, 0)[:n].repeat_interleave(128, 1)[:, :k]
        else:
            left = right = scales["whole"].double()
        exact = (a.double() * left) @ (b.double() * right.double()).T
        e4m3 = torch.float8_e4m3fn
        eight = a.to(element or e4m3), b.to(e4m3)
        for _ in range(3):
            c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            make(eight[0], eight[1], c, scales)()
            torch.cuda.synchronize()
            if not bool((c == exact.float().bfloat16()).all()):
                raise toolchain.CudaError(f"{name} is wrong at {m} × {n} × {k}")


def vendor(torch: Any, a: Any, b: Any, scales: Operands) -> dict[str, beside_torch.Launch]:
    """cuBLASLt's ways; of block scales two layouts, since versions of torch differ."""
    one, bf16 = torch.ones(1, device="cuda"), torch.bfloat16
    rows, columns = torch.ones(len(a), 1, device="cuda"), torch.ones(1, len(b), device="cuda")
    along = scales["a"][:, : len(a)].t()

    def by_blocks() -> Any:
        functional = torch.nn.functional
        kinds = functional.ScalingType
        return functional.scaled_mm(
            a, b.t(), along, kinds.BlockWise1x128, scales["b"].t(), kinds.BlockWise128x128,
            output_dtype=bf16,
        )  # fmt: skip

    def scaled(left: Any, right: Any, fast: bool) -> beside_torch.Launch:
        return lambda: torch._scaled_mm(a, b.t(), left, right, out_dtype=bf16, use_fast_accum=fast)

    return {
        "cuBLASLt, one scale": scaled(one, one, False),
        "cuBLASLt, one scale, fast": scaled(one, one, True),
        "cuBLASLt, scales by row": scaled(rows, columns, False),
        "cuBLASLt, block scales": by_blocks,
    }


def random_numbers(torch: Any, rows: int, k: int, signs: int = 1) -> Any:
    """Normal random numbers, or their magnitudes, as e4m3."""
    x = 16 * torch.randn(rows, k, device="cuda")
    return (x if signs else x.abs()).to(torch.float8_e4m3fn)


def _products(
    torch: Any, makers: dict[str, Maker], shape: tuple[int, int, int],
    refused: dict[str, str],
) -> dict[str, Any]:  # fmt: skip
    m, n, k = shape
    a, b = random_numbers(torch, m, k), random_numbers(torch, n, k)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    scales = scales_of(torch, m, n, k, lambda *size: torch.rand(*size, device="cuda") + 0.5)
    launches = {
        name: make(a, b, c, scales) for name, make in makers.items() if name != "stamps"
    }
    for name, launch in vendor(torch, a, b, scales).items():
        try:
            launch()
            torch.cuda.synchronize()
            launches[name] = launch
        except (RuntimeError, ValueError, AttributeError) as error:
            refused[name] = str(error).splitlines()[0][:300]
    found = clocks.times(torch, launches, ROUNDS, REST, warm=WARM, each=EACH)
    flop = measure.matmul_flop(m, n, k)
    print(f"⏱ {m} × {n} × {k}", flush=True)
    for name, each in found.items():
        rate = measure.tflops(flop, measure.summary(each["times_us"]).median * 1e-6)
        mhz = measure.summary(each["mhz"]).median
        print(f"⏱ {name}: {rate:.0f} TFLOP/s at {mhz:.0f} MHz")
    return {"shape": shape, "contenders": found}


def _errors(torch: Any, makers: dict[str, Maker], k: int, signs: int) -> dict[str, Any]:
    """How far the results of one problem are from double precision; scales are all 1."""
    a, b = random_numbers(torch, 512, k, signs), random_numbers(torch, 512, k, signs)
    exact = a.double() @ b.double().T
    scales = scales_of(torch, 512, 512, k, lambda *size: torch.ones(*size, device="cuda"))
    found = {}

    def error(c: Any) -> float:
        return float((c.double() - exact).norm() / exact.norm())

    for name, make in makers.items():
        c = torch.empty(512, 512, device="cuda", dtype=torch.bfloat16)
        make(a, b, c, scales)()
        found[name] = error(c)
    for name, launch in vendor(torch, a, b, scales).items():
        try:
            found[name] = error(launch())
        except (RuntimeError, ValueError, AttributeError):
            continue
    return {"k": k, "signs": bool(signs), "relative": found}


def _sums() -> dict[str, Any]:
    """The probe's answers: which addends survive, where a sum stalls, the bits of random sums."""
    return {
        "survivors": {element: sums.survivors(element, "gpu") for element in sums.BYTES},
        "stalled": {
            str(32 * products): {
                "e4m3": sums.stalled("e4m3", products, device="gpu"),
                "every 128": sums.stalled("e4m3", products, 4, device="gpu"),
                "bf16": sums.stalled("bf16", 2 * products, device="gpu"),
            }
            for products in STALLED
        },
        "random": [
            {
                "element": element, "products": products, "every": every, "seed": seed,
                "bits": sums.random_sums(element, products, every, seed, "gpu").ravel().tolist(),
            }
            for element, cases in _SUMS.items()
            for seed, (products, every) in enumerate(cases)
        ],
    }  # fmt: skip


def _stamps(torch: Any, library: ctypes.CDLL, shape: tuple[int, int, int]) -> dict[str, Any]:
    m, n, k = shape
    a, b = random_numbers(torch, m, k), random_numbers(torch, n, k)
    c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    scales = scales_of(torch, m, n, k, lambda *size: torch.ones(*size, device="cuda"))
    launch = of_ours(torch, "stamps", library, a, b, c, scales)
    launch()
    launch()
    places = ((ctypes.c_longlong * _PASSES) * _PLACES)()
    span = ((ctypes.c_longlong * 2) * 2)()
    library.read_stamps(places, span)
    begin, passes = span[0][0], 2 * k // 128
    return {
        "shape": shape,
        "places": [[at - begin if at else -1 for at in place[:passes]] for place in places],
        "cycles": span[1][0] - begin,
        "ns": span[1][1] - span[0][1],
    }
