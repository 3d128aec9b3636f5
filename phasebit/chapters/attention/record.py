"""*Attention*: each rung of the ladder and what is tried beside it, in bf16.

Beside them, in the same process and by turns, cuDNN and FlashAttention-2, both through torch's
``scaled_dot_product_attention``, and FlashAttention-3 where it is built (see :mod:`.flash_3`).
"""

from __future__ import annotations

import ctypes
import random
import statistics
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from phasebit import measure, toolchain
from phasebit.chapters.attention import (
    attention_controls,
    flash_3,
    last_done,
    launched,
    narrow_heads,
    waits,
)
from phasebit.chapters.attention.rungs import (
    FLASH_3,
    HEADS,
    LADDER,
    RIVALS,
    SEQUENCES,
    STAMPED,
    TOKENS,
    VARIANTS,
    stamped,
    text,
)
from phasebit.chapters.attention.softmax import bound
from phasebit.chapters.attention.view import ALONE, LAST, PACKED, flop, packed_flop
from phasebit.instruments import beside_torch, clocks
from phasebit.instruments.beside_torch import Launch

NAME = "attention"
STAMPS = "attention_stamps"
FURTHER = (attention_controls.NAME, STAMPS, narrow_heads.NAME, waits.NAME, last_done.NAME)

_ROUNDS, _REST, _WARM, _EACH = 6, 0.01, 2, 4
_STAMPED = 4096  # tokens of the launch that is stamped
_PLACES, _PASSES = 8, 256  # of include/stamps.cuh
_ROWS = 64  # queries of a head that are checked
_STAMPING = {
    "stamps": "the multiprocessor's clock, read in block 0 by the first thread of each group at "
    f"the places of rungs.py; heads of 128, {_STAMPED} tokens, after 2 launches that do not "
    "count",
    "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all",
}
_SHORTEST, _LONGEST = 64, 4096  # packed sequences


def record() -> dict[str, Any]:
    """Measure on this machine's GPU; what was controlled is saved beside it, and the stamps.

    Raises :class:`toolchain.CudaError` when there is no GPU or torch, or when a kernel fails or is
    wrong.
    """
    facts = measure.facts()
    measure.save(attention_controls.record())
    measure.save(narrow_heads.record())
    measure.save(waits.record())
    measure.save(last_done.record())
    torch = beside_torch.torch_here(NAME)
    texts = {name: text(name) for name in (*LADDER, *VARIANTS)}
    texts |= {f"stamps {name}": stamped(name) for name in STAMPED}
    with ThreadPoolExecutor(16) as pool:
        built = dict(zip(texts, pool.map(_build, texts.values()), strict=True))
    loaded = {name: ctypes.CDLL(str(build.program)) for name, build in built.items()}
    measure.save(
        {
            "benchmark": STAMPS,
            **facts,
            "protocol": _STAMPING,
            "stamps": {name: _stamps(torch, loaded[f"stamps {name}"]) for name in STAMPED},
        }
    )
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
                         (64, True, 4096), (128, False, 1024))
        ],
        "packed": [_packed(torch, loaded[LAST], d) for d in (128, 64)],
        "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count,
    }  # fmt: skip


def _protocol(torch: Any) -> dict[str, str]:
    built = flash_3.here() is not None
    return {
        **clocks.protocol(_ROUNDS, _REST, warm=_WARM, each=_EACH),
        "inputs": f"normal random bf16 numbers, {HEADS} heads, {TOKENS} tokens in all",
        "check": f"before timing, {_ROWS} queries of the first head and of the last against "
        "attention in double, within softmax.bound; largest_error is a part of that bound",
        "packed": f"sequences of {_SHORTEST} to {_LONGEST} tokens, their logarithms drawn evenly, "
        f"about {TOKENS} tokens in all, causal; '{ALONE}': a launch for each, one after the other",
        "rivals": f"torch {torch.__version__}, scaled_dot_product_attention with the backend of "
        "cuDNN and with the one of FlashAttention-2, the same operands, same process; "
        + (flash_3.version() if built else "FlashAttention-3 was not here"),
    }


def _build(source: str) -> toolchain.Build:
    return toolchain.build(source, name=NAME, target="sm_90a", library=True)


def _side_by_side(
    torch: Any, libraries: Mapping[str, ctypes.CDLL], d: int, causal: bool, length: int
) -> dict[str, Any]:
    torch.manual_seed(length + d + causal)
    shape = (TOKENS // length, HEADS, length, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    tensors = q, k, v, torch.empty_like(q)
    launches = {
        name: launched.ours(torch, library, tensors, causal) for name, library in libraries.items()
    }
    launches |= launched.torchs(torch, tensors, causal)
    if library := flash_3.here():
        launches[FLASH_3] = flash_3.launch(torch, library, tensors, causal)
    heads = [[each[head] for each in tensors] for head in ((0, 0), (-1, -1))]
    errors = {
        name: _error(torch, name, launch, tensors[3], heads, causal)
        for name, launch in launches.items()
        if name not in VARIANTS or VARIANTS[name].right
    }
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    kind = "causal" if causal else "full"
    _print(f"{d} columns, {kind}, {length}", found, flop(d, causal, length))
    return {"d": d, "causal": causal, "sequence": length, "contenders": found,
            "largest_error": errors}  # fmt: skip


def _print(what: str, found: Mapping[str, Mapping[str, list[float]]], work: float) -> None:
    rates = {name: measure.tflops(work, statistics.median(each["times_us"]) * 1e-6)
             for name, each in found.items()}  # fmt: skip
    print(f"⏱ {what}: " + ", ".join(f"{name} {rate:.0f}" for name, rate in rates.items()),
          flush=True)  # fmt: skip


def lengths() -> list[int]:
    """Of packed sequences: drawn, the same in each record."""
    draw, found = random.Random(19), list[int]()
    while sum(found) < TOKENS:
        found.append(round(_SHORTEST * (_LONGEST / _SHORTEST) ** draw.random()))
    return found


def _packed(torch: Any, library: ctypes.CDLL, d: int) -> dict[str, Any]:
    """Causal attention over sequences of many lengths, in one launch and in one for each."""
    each = lengths()
    starts = torch.tensor([0, *each], dtype=torch.int32).cumsum(0, dtype=torch.int32).cuda()
    torch.manual_seed(d)
    shape = (sum(each), HEADS, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    tensors = q, k, v, torch.empty_like(q)
    parts = [(int(starts[i]), int(starts[i + 1])) for i in range(len(each))]
    alone = [
        launched.ours(torch, library, tuple(x[a:b] for x in tensors), True, starts[i : i + 2] - a)
        for i, (a, b) in enumerate(parts)
    ]

    def one_each() -> None:
        for launch in alone:
            launch()

    launches: dict[str, Launch] = {
        PACKED: launched.ours(torch, library, tensors, True, starts),
        ALONE: one_each,
    }
    if rival := flash_3.here():
        launches[FLASH_3] = flash_3.launch(torch, rival, tensors, True, starts)
    first, last = parts[0], parts[-1]
    heads = [[x[a:b, head] for x in tensors] for (a, b), head in ((first, 0), (last, -1))]
    errors = {name: _error(torch, name, launch, tensors[3], heads, True)
              for name, launch in launches.items()}  # fmt: skip
    found = clocks.times(torch, launches, _ROUNDS, _REST, warm=_WARM, each=_EACH)
    _print(f"{d} columns, packed", found, packed_flop(d, each))
    return {"d": d, "causal": True, "lengths": each, "contenders": found,
            "largest_error": errors}  # fmt: skip


def _error(
    torch: Any, name: str, launch: Launch, o: Any, heads: Sequence[Sequence[Any]], causal: bool
) -> float:
    """The largest error as a part of what is allowed; raises where it is more than that.

    ``heads``: of each that is looked at q, k, v and o, (length, d); torch's launches return theirs.
    """
    o.fill_(float("nan"))
    found = launch()
    if hasattr(found, "shape"):
        o.copy_(found)
    torch.cuda.synchronize()
    worst = 0.0
    for q, k, v, made in heads:
        length, d = q.shape
        some = torch.randint(0, length, (_ROWS - 1,))
        rows = torch.cat([some, torch.tensor([length - 1])]).cuda()
        left, keys, values = q[rows].double(), k.double(), v.double()
        scores, sizes = (x @ y.T * d**-0.5 for x, y in ((left, keys), (left.abs(), keys.abs())))
        if causal:
            hidden = torch.arange(length, device="cuda")[None] > rows[:, None]
            scores = scores.masked_fill(hidden, -torch.inf)
            sizes = sizes.masked_fill(hidden, 0)
        p = torch.softmax(scores, 1)
        exact = (p @ values).cpu().numpy()
        allowed = bound(d, length, sizes.amax(1, keepdim=True).cpu().numpy(),
                        (p @ values.abs()).cpu().numpy(), np.abs(exact))  # fmt: skip
        ratio = np.abs(made[rows].double().cpu().numpy() - exact) / allowed
        worst = max(worst, float(np.where(np.isnan(ratio), np.inf, ratio).max()))
    if worst > 1 and name not in RIVALS:
        raise toolchain.CudaError(
            f"{name} is wrong for heads of {d} and {length} tokens: an error of {worst:.2f} of "
            "what is allowed"
        )
    return round(worst, 3)


def _stamps(torch: Any, library: ctypes.CDLL) -> dict[str, Any]:
    """Of each place the cycles since the first stamp, pass after pass, -1 where there is none."""
    q, k, v = (torch.randn((4, HEADS, _STAMPED, 128), device="cuda", dtype=torch.bfloat16)
               for _ in range(3))  # fmt: skip
    launch = launched.ours(torch, library, (q, k, v, torch.empty_like(q)), False)
    for _ in range(3):
        launch()
    places = ((ctypes.c_longlong * _PASSES) * _PLACES)()
    span = ((ctypes.c_longlong * 2) * 2)()
    library.read_stamps(places, span)
    begin = span[0][0]
    cycles = [[at - begin if at else -1 for at in place[:32]] for place in places]
    return {"places": cycles, "cycles": span[1][0] - begin, "ns": span[1][1] - span[0][1]}
