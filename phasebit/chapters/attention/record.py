"""*Attention*: each rung of the ladder and what is tried beside it, in bf16.

Beside them, in the same process and by turns, cuDNN and FlashAttention-2, both through torch's
``scaled_dot_product_attention``.
"""

from __future__ import annotations

import ctypes
import random
import statistics
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from phasebit import measure, toolchain
from phasebit.chapters.attention import attention_controls
from phasebit.chapters.attention.rungs import (
    CUDNN,
    FLASH,
    HEADS,
    LADDER,
    SEQUENCES,
    STAMPED,
    TOKENS,
    VARIANTS,
    stamped,
    text,
)
from phasebit.chapters.attention.softmax import bound
from phasebit.chapters.attention.view import flop
from phasebit.instruments import beside_torch
from phasebit.instruments.beside_torch import Launch

NAME = "attention"
FURTHER = (attention_controls.NAME,)

_WARM, _TIMED = 2, 4  # launches of a turn: those that do not count, then those that do
_ROUNDS = 6
_STAMPED = 4096  # tokens of the launch that is stamped
_PLACES, _PASSES = 8, 256  # of include/stamps.cuh
_ROWS = 64  # queries of a head that are checked


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; what was controlled is saved beside it.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    measure.save(attention_controls.record())
    torch = beside_torch.torch_here(NAME)
    texts = {name: text(name) for name in (*LADDER, *VARIANTS)}
    texts |= {f"stamps {name}": stamped(name) for name in STAMPED}
    with ThreadPoolExecutor(16) as pool:
        built = dict(zip(texts, pool.map(_build, texts.values()), strict=True))
    loaded = {name: ctypes.CDLL(str(build.program)) for name, build in built.items()}
    ladder = {name: loaded[name] for name in LADDER}
    cases = [(d, causal, s) for d in (128, 64) for causal in (False, True) for s in SEQUENCES]
    return {
        "benchmark": NAME,
        **facts,
        "protocol": _protocol(torch),
        "ladder": [_side_by_side(torch, ladder, *case) for case in cases],
        "variants": [
            _side_by_side(torch, {name: loaded[name] for name in (*LADDER, *VARIANTS)}, *case)
            for case in ((128, False, 4096), (128, True, 4096), (64, False, 4096),
                         (128, False, 1024))
        ],
        "stamps": {name: _stamps(torch, loaded[f"stamps {name}"]) for name in STAMPED},
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
    }  # fmt: skip


def _protocol(torch: Any) -> dict[str, str]:
    return {
        "clock": "CUDA events before and after each launch",
        "order": f"in each of {_ROUNDS} rounds the contenders by turns, in a new random order; "
        f"{_WARM} launches of each that do not count, then {_TIMED} that do; no flush between "
        "launches",
        "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all",
        "check": f"before timing, {_ROWS} queries of the first head and of the last against "
        "attention in double, within softmax.bound; largest_error is a part of that bound",
        "stamps": "the multiprocessor's clock, read in block 0 by the first thread of each group "
        f"at the places of rungs.py; heads of 128, {_STAMPED} tokens, a launch after two of the "
        "same",
        "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend of "
        "cuDNN and with the one of FlashAttention-2, the same operands",
    }


def _build(source: str) -> toolchain.Build:
    return toolchain.build(source, name=NAME, target="sm_90a", library=True)


def _launches(
    torch: Any, libraries: Mapping[str, ctypes.CDLL], q: Any, k: Any, v: Any, causal: bool
) -> tuple[dict[str, Launch], Any]:
    """How to launch each contender; all but the rivals write to the second result."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    batches, heads, length, d = q.shape
    o = torch.empty_like(q)
    pointers = beside_torch.pointers((q, k, v, o))
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def ours(library: ctypes.CDLL) -> Launch:
        return lambda: library.attend(*pointers, batches, heads, heads, length, length, d,
                                      int(causal), units, stream)  # fmt: skip

    def rival(backend: Any) -> Launch:
        def launch() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return launch

    launches = {name: ours(library) for name, library in libraries.items()}
    launches[CUDNN] = rival(SDPBackend.CUDNN_ATTENTION)
    launches[FLASH] = rival(SDPBackend.FLASH_ATTENTION)
    return launches, o


def _side_by_side(
    torch: Any, libraries: Mapping[str, ctypes.CDLL], d: int, causal: bool, length: int
) -> dict[str, Any]:
    torch.manual_seed(length + d + causal)
    shape = (TOKENS // length, HEADS, length, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    launches, o = _launches(torch, libraries, q, k, v, causal)
    errors = {
        name: _error(torch, name, launch, (q, k, v, o), causal)
        for name, launch in launches.items()
        if name not in VARIANTS or VARIANTS[name].right
    }
    times: dict[str, list[float]] = {name: [] for name in launches}
    order, draw = list(launches), random.Random(length + d)
    for _ in range(_ROUNDS):
        draw.shuffle(order)
        for name in order:
            for _ in range(_WARM):
                launches[name]()
            times[name] += beside_torch.timed(torch, launches[name], _TIMED)
    for name, each in times.items():
        rate = measure.tflops(flop(d, causal, length), statistics.median(each) * 1e-6)
        kind = "causal" if causal else "full"
        print(f"⏱ {d} columns, {kind}, {length}: {name}, {rate:.1f} TFLOP/s", flush=True)
    return {"d": d, "causal": causal, "sequence": length, "times_us": times,
            "largest_error": errors}  # fmt: skip


def _error(torch: Any, name: str, launch: Launch, tensors: tuple[Any, ...], causal: bool) -> float:
    """The largest error as a part of what is allowed; raises where it is more than that."""
    q, k, v, o = tensors
    length, d = q.shape[2:]
    o.fill_(float("nan"))
    found = launch()
    found = o if found is None or not hasattr(found, "shape") else found
    torch.cuda.synchronize()
    rows = torch.cat([torch.randint(0, length, (_ROWS - 1,)), torch.tensor([length - 1])]).cuda()
    worst = 0.0
    for head in ((0, 0), (-1, -1)):
        scale = d**-0.5
        left, keys, values = q[head][rows].double(), k[head].double(), v[head].double()
        scores, sizes = left @ keys.T * scale, left.abs() @ keys.abs().T * scale
        if causal:
            hidden = torch.arange(length, device="cuda")[None] > rows[:, None]
            scores = scores.masked_fill(hidden, -torch.inf)
            sizes = sizes.masked_fill(hidden, 0)
        p = torch.softmax(scores, 1)
        exact = (p @ values).cpu().numpy()
        allowed = bound(d, length, sizes.amax(1, keepdim=True).cpu().numpy(),
                        (p @ values.abs()).cpu().numpy(), np.abs(exact))  # fmt: skip
        ratio = np.abs(found[head][rows].double().cpu().numpy() - exact) / allowed
        worst = max(worst, float(np.where(np.isnan(ratio), np.inf, ratio).max()))
    if worst > 1 and name not in (CUDNN, FLASH):
        raise toolchain.CudaError(
            f"{name} is wrong for {length} tokens and heads of {d}: an error of {worst:.2f} of "
            "what is allowed"
        )
    return round(worst, 3)


def _stamps(torch: Any, library: ctypes.CDLL) -> dict[str, Any]:
    """Of each place the cycles since the first stamp, pass after pass, -1 where there is none."""
    q, k, v = (torch.randn((4, HEADS, _STAMPED, 128), device="cuda", dtype=torch.bfloat16)
               for _ in range(3))  # fmt: skip
    launches, _ = _launches(torch, {"stamped": library}, q, k, v, False)
    for _ in range(3):
        launches["stamped"]()
    places = ((ctypes.c_longlong * _PASSES) * _PLACES)()
    span = ((ctypes.c_longlong * 2) * 2)()
    library.read_stamps(places, span)
    begin = span[0][0]
    cycles = [[at - begin if at else -1 for at in place[:32]] for place in places]
    return {"places": cycles, "cycles": span[1][0] - begin, "ns": span[1][1] - span[0][1]}
