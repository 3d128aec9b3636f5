"""The kernels of *Attention again*, timed beside torch's attention.

For whoever has a GPU that runs ``sm_100a``, as a B200 is: none was at hand when this was written.
Needs torch, for the rival and for the check.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import files, measure, toolchain
from phasebit.chapters.attention_again.tensor_attention import FOLDER, KERNELS, LOG2_E, THRESHOLD
from phasebit.instruments import beside_torch

NAME = "attention_again"
TARGET = "sm_100a"
"""What a GPU must run for this to be measured."""

VENDOR = "torch"
TOKENS, HEADS = 16384, 16
CASES = tuple((depth, causal) for depth in (128, 64) for causal in (False, True))
_ROUNDS, _EACH, _ROWS = 10, 4, 64

# For a library: a launch on device memory; each array is (sequence, heads · DEPTH).
_ATTENTION = """
extern "C" void attend_all(const Element* q, const Element* k, const Element* v, Element* o,
                           int heads, int queries, int keys, int causal, float scale,
                           float threshold) {
    launch(q, k, v, o, heads, {queries, keys, causal, scale, threshold});
    CHECK(cudaGetLastError());
}
"""


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is no GPU or one that does not run
    :data:`TARGET`, when torch is missing, or when a kernel fails or is wrong.
    """
    facts = beside_torch.facts_for(NAME, TARGET)
    torch = beside_torch.torch_here(NAME)
    wanted = [(name, depth) for name in KERNELS for depth in (64, 128)]
    with ThreadPoolExecutor(len(wanted)) as pool:
        built = pool.map(lambda each: build(*each), wanted)
    libraries = {each: ctypes.CDLL(str(one.program))
                 for each, one in zip(wanted, built, strict=True)}  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "clock": "CUDA events before and after each launch",
            "order": f"{_ROUNDS} rounds; in each, every contender in turn, a launch that does not "
            f"count and then {_EACH} that do",
            "inputs": f"normal random bf16 numbers, {HEADS} heads, one sequence of {TOKENS} "
            "tokens; no flush between launches",
            "check": f"before timing, {_ROWS} queries of the first head and of the last against "
            "attention in double, within 2⁻⁶·Σp|v|/Σp",
            "vendor": f"torch {torch.__version__}, scaled_dot_product_attention, the same operands",
        },
        "attention": [_case(torch, libraries, *case) for case in CASES],
    }


def build(kernel: str, depth: int, runtime: Path | None = None) -> toolchain.Build:
    """A kernel as a library, for heads of this depth; ``runtime``: as of a program."""
    return toolchain.build(
        files.kernel(f"{FOLDER}/{kernel}") + _ATTENTION, name=NAME, target=TARGET,
        options=[f"-DHEAD={depth}"], library=True, runtime=runtime,
    )  # fmt: skip


def attend(library: Any, arrays: list[Any], shape: tuple[int, int, int, int], causal: bool) -> None:
    """Launch a library's kernel on addresses of Q, K, V and O.

    ``shape``: heads, queries, keys, depth of a head.
    """
    heads, queries, keys, depth = shape
    scale = ctypes.c_float(LOG2_E / math.sqrt(depth))
    library.attend_all(*arrays, heads, queries, keys, int(causal), scale,
                       ctypes.c_float(THRESHOLD))  # fmt: skip


def _case(
    torch: Any, libraries: Mapping[tuple[str, int], Any], depth: int, causal: bool
) -> dict[str, Any]:
    """One depth, full or causal: every contender checked, then timed."""
    q, k, v = (torch.randn(TOKENS, HEADS, depth, device="cuda", dtype=torch.bfloat16)
               for _ in range(3))  # fmt: skip
    o = torch.empty_like(q)
    arrays = beside_torch.pointers((q, k, v, o))
    shape = (HEADS, TOKENS, TOKENS, depth)

    def ours(library: Any) -> beside_torch.Launch:
        return lambda: attend(library, arrays, shape, causal)

    launches = {name: ours(libraries[name, depth]) for name in KERNELS}
    for name, launch in launches.items():
        _check(torch, name, launch, (q, k, v, o), causal)
    turned = [x.transpose(0, 1)[None] for x in (q, k, v)]
    attention = torch.nn.functional.scaled_dot_product_attention
    launches[VENDOR] = lambda: attention(*turned, is_causal=causal)
    found = beside_torch.times(torch, launches, _ROUNDS, _EACH)
    return {"depth": depth, "causal": causal, "tokens": TOKENS, "heads": HEADS, "us": found}


def _check(
    torch: Any, name: str, launch: beside_torch.Launch, tensors: tuple[Any, ...], causal: bool
) -> None:
    """Raises :class:`toolchain.CudaError` where an element is out of its bound."""
    q, k, v, o = tensors
    o.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    rows = torch.randint(len(q), (_ROWS,), device=q.device)
    for head in 0, q.shape[1] - 1:
        scores = q[rows, head].double() @ k[:, head].double().T / math.sqrt(q.shape[2])
        if causal:
            unseen = torch.arange(len(k), device=q.device)[None, :] > rows[:, None]
            scores = scores.masked_fill(unseen, float("-inf"))
        weights, values = scores.softmax(dim=1), v[:, head].double()
        error = (o[rows, head].double() - weights @ values).abs()
        if not bool((error <= 2.0**-6 * (weights @ values.abs())).all()):
            raise toolchain.CudaError(f"{name} is wrong with heads of {q.shape[2]}")


def table(record: dict[str, Any]) -> measure.Table:
    """What the page shows of a record: rates of the two products of attention."""
    cases = record["attention"]
    heading = [f"heads of {each['depth']}, {'causal' if each['causal'] else 'full'}"
               for each in cases]  # fmt: skip

    def rate(case: dict[str, Any], name: str) -> str:
        flop = 4 * case["tokens"] ** 2 * case["heads"] * case["depth"] / (1 + case["causal"])
        seconds = measure.summary(case["us"][name]).median * 1e-6
        return f"{measure.tflops(flop, seconds):,.0f}"

    rows = [(name, *(rate(case, name) for case in cases)) for name in cases[0]["us"]]
    return measure.Table(("TFLOP/s", *heading), tuple(rows),
                         f"{measure.source(record)}, medians")  # fmt: skip
