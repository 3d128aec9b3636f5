"""The shapes by open kernels of others, beside ours and cuBLAS: CUTLASS, DeepGEMM, fast.cu.

Where ``PHASEBIT_RIVALS`` says (see :mod:`phasebit.instruments.rivals`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.every_shape import bench, view
from phasebit.chapters.every_shape.choice import contenders
from phasebit.chapters.every_shape.shapes import SHAPES, Shape
from phasebit.instruments import beside_torch
from phasebit.instruments.beside_torch import Launch
from phasebit.instruments.rivals import cutlass, cutlass_version, deep_gemm, fast_cu, here

NAME = "every_shape_rivals"
OURS, VENDOR, CUTLASS, DEEP_GEMM, FAST_CU = "ours", bench.VENDOR, "CUTLASS", "DeepGEMM", "fast.cu"
KERNELS: dict[str, dict[str, Any]] = {
    "pairs of 128 × 256": {"tile": (128, 256, 64), "pair": 2},
    "pairs of 256 × 128": {"tile": (256, 128, 64), "pair": 2},
    "pairs of 128 × 256, stream-K": {"tile": (128, 256, 64), "pair": 2, "stream_k": True},
    "128 × 128, stream-K": {"tile": (128, 128, 64), "stream_k": True},
    "pairs of 128 × 128, ping-pong": {"tile": (128, 128, 64), "pair": 2, "pingpong": True},
    "pairs of 64 × 256, ping-pong": {"tile": (64, 256, 64), "pair": 2, "pingpong": True},
    "64 × 128, ping-pong": {"tile": (64, 128, 64), "pingpong": True},
    "64 × 64, ping-pong": {"tile": (64, 64, 128), "pingpong": True},
    "128 × 16, exchanged, stream-K": {
        "tile": (128, 16, 128), "stream_k": True, "exchanged": True},
    "128 × 64, exchanged, stream-K": {
        "tile": (128, 64, 64), "stream_k": True, "exchanged": True},
    "128 × 128, exchanged, stream-K": {
        "tile": (128, 128, 64), "stream_k": True, "exchanged": True},
    "64 × 64, exchanged, ping-pong": {
        "tile": (64, 64, 128), "pingpong": True, "exchanged": True},
}  # fmt: skip
"""CUTLASS's collectives in the tiles and schedules that its own profiler's choices are made of."""
SWIZZLES = (1, 4)
"""Of each, how many tiles side by side the walk over C takes (CUTLASS's ``max_swizzle_size``)."""
_ROOM = 256 << 20


def record(before: dict[str, Any]) -> dict[str, Any]:
    """Measure on this machine's GPU; ``before``: the chapter's record, whose plans are ours.

    Raises :class:`toolchain.CudaError` when there is no GPU, torch or rival, or when a kernel
    fails or is wrong.
    """
    facts = measure.facts()
    torch = beside_torch.torch_here(NAME)
    ours = {shape: _ours(before, shape) for shape in SHAPES}
    texts = {text for plans in ours.values() for text in plans.values()}
    with ThreadPoolExecutor(16) as pool:
        theirs = {
            name: pool.submit(cutlass, *kernel["tile"], **_options(kernel))
            for name, kernel in KERNELS.items()
        }
        fast = pool.submit(fast_cu)
        built = dict(zip(texts, pool.map(_build, texts), strict=True))
        libraries = {name: each.result() for name, each in theirs.items()}
    rivals = Rivals(torch, libraries, *fast.result())
    timing = bench.Bench(torch, {text: ctypes.CDLL(str(b.program)) for text, b in built.items()})
    rows = []
    for shape in SHAPES:
        rows.append(timing.makers(shape, ours[shape], rivals.of(shape)))
        said = (f"{who} {share:.3f}" for who, share in view.by_maker(rows[-1], "warm").items())
        print(f"⏱ {shape}: {', '.join(said)}", flush=True)
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            **bench.protocol(torch),
            "ours": "the plan that was fastest in the chapter's record, and the model's",
            "rivals": "the same operands and the same check; of CUTLASS each kernel of a list, "
            f"each with {' and '.join(map(str, SWIZZLES))} for max_swizzle_size; fast.cu at the "
            "squares that it can do; of each maker the fastest of the first run is timed anew",
        },
        "versions": rivals.versions(),
        "refused": rivals.refused,
        "shapes": rows,
    }


def _ours(recorded: dict[str, Any], shape: Shape) -> dict[str, str]:
    """The fastest plan of the chapter's record, and the model's choice: name -> text."""
    known = {str(plan): plan for plan in contenders(shape)}
    row = view.row_of(recorded, shape)
    return {f"{OURS}: {name}": known[name].text for name in (row["fastest"], row["chosen"])}


def _build(text: str) -> toolchain.Build:
    return toolchain.build(text, name=NAME, target="sm_90a", library=True)


def _options(kernel: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in kernel.items() if name != "tile"}


class Rivals:
    """What others' kernels need to be launched on torch's matrices, and what they refused."""

    def __init__(
        self, torch: Any, libraries: dict[str, ctypes.CDLL], fast: ctypes.CDLL, fast_from: str
    ) -> None:
        self._torch = torch
        self._cutlass = libraries
        self._fast = fast
        self._deep = deep_gemm() if here("DeepGEMM") else None
        self._units = torch.cuda.get_device_properties(0).multi_processor_count
        self._room = torch.empty(_ROOM, dtype=torch.uint8, device="cuda")
        self._fast_from = fast_from
        self.refused: dict[str, list[str]] = {}
        for library in libraries.values():
            library.product.restype = ctypes.c_long

    def versions(self) -> dict[str, str]:
        """Of whom: what was built."""
        found = {CUTLASS: cutlass_version(), FAST_CU: self._fast_from}
        return found | ({DEEP_GEMM: str(self._deep.__version__)} if self._deep else {})

    def of(self, shape: Shape) -> dict[str, Callable[..., Launch]]:
        """Name -> what makes a launch from A, B and C, of each rival that takes the shape."""
        found = dict(self._of_cutlass(shape))
        if self._deep:
            multiply = self._deep.bf16_gemm_nt
            found[DEEP_GEMM] = lambda a, b, c: lambda: multiply(a, b, c)
        if shape.m == shape.n == shape.k and shape.m % 256 == 0:
            found[FAST_CU] = self._of_fast(shape)
        return found

    def _stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self._torch.cuda.current_stream().cuda_stream)

    def _of_fast(self, shape: Shape) -> Callable[..., Launch]:
        def make(a: Any, b: Any, c: Any) -> Launch:
            operands = (*beside_torch.pointers((a, b, c)), *shape)
            self._fast.product(*operands, 1, self._stream())
            return lambda: self._fast.product(*operands, 0, self._stream())

        return make

    def _of_cutlass(self, shape: Shape) -> Iterator[tuple[str, Callable[..., Launch]]]:
        torch = self._torch
        m, n, k = shape
        tried = [
            torch.zeros(size, device="cuda", dtype=torch.bfloat16)
            for size in ((m, k), (n, k), (m, n))
        ]
        for name, library in self._cutlass.items():
            for swizzle in SWIZZLES:

                def make(
                    a: Any, b: Any, c: Any, library: ctypes.CDLL = library, swizzle: int = swizzle
                ) -> Launch:
                    told = (*beside_torch.pointers((a, b, c)), *shape, swizzle, self._units)
                    room = beside_torch.pointers([self._room])
                    return lambda: library.product(*told, *room, self._stream())

                full = f"{CUTLASS}: {name}, swizzle {swizzle}"
                told = (*beside_torch.pointers(tried), *shape, swizzle, self._units)
                needed = library.product(*told, None, self._stream())
                taken = needed <= _ROOM and make(*tried)() == 0
                torch.cuda.synchronize()
                if taken:
                    yield full, make
                else:
                    self.refused.setdefault(str(shape), []).append(full)
