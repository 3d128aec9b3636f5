"""How the kernels of *Attention* and torch's are launched on torch's tensors."""

from __future__ import annotations

import ctypes
from typing import Any

from phasebit import toolchain
from phasebit.chapters.attention.rungs import CUDNN, FLASH, HEADS, TOKENS
from phasebit.instruments import beside_torch
from phasebit.instruments.beside_torch import Launch

Tensors = tuple[Any, Any, Any, Any]
"""q, k, v and o: (batches, heads, length, d), or packed, (tokens, heads, d)."""


def tensors(torch: Any, d: int, length: int) -> Tensors:
    """Normal random q, k and v of sequences of ``length`` tokens, and room for o; on the GPU."""
    torch.manual_seed(length + d)
    shape = (TOKENS // length, HEADS, length, d)
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    return q, k, v, torch.empty_like(q)


def check(name: str, launch: Launch, o: Any, right: Any) -> None:
    """Launch with o poisoned; raises :class:`toolchain.CudaError` where it is not ``right``.

    Every number must be within 0.02 + 2 per cent of cuDNN's.
    """
    o.fill_(float("nan"))
    launch()
    if not bool(((o - right).abs() <= 0.02 + 0.02 * right.abs()).all()):
        raise toolchain.CudaError(f"{name} differs from cuDNN's attention")


def ours(
    torch: Any, library: ctypes.CDLL, tensors: Tensors, causal: bool, starts: Any = None
) -> Launch:
    """One launch of a kernel, which writes to o.

    ``starts``: where each packed sequence begins, and where the last one ends; i32, on the GPU.
    """
    q = tensors[0]
    pointers = beside_torch.pointers(tensors)
    units = torch.cuda.get_device_properties(0).multi_processor_count
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    counter = torch.zeros(1, dtype=torch.int32, device="cuda")
    batches, heads, length, d = q.shape if starts is None else (
        len(starts) - 1, q.shape[1], q.shape[0], q.shape[2])  # fmt: skip
    first = None if starts is None else ctypes.c_void_p(starts.data_ptr())

    def launch(kept: tuple[Any, ...] = (counter, starts)) -> None:  # alive as long as the launch is
        library.attend(*pointers, batches, heads, heads, length, length, d, int(causal), units,
                       first, first, ctypes.c_void_p(kept[0].data_ptr()), stream)  # fmt: skip

    return launch


def torchs(torch: Any, tensors: Tensors, causal: bool) -> dict[str, Launch]:
    """cuDNN's attention and FlashAttention-2, each with a result of its own."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v, _ = tensors

    def by(backend: Any) -> Launch:
        def launch() -> Any:
            with sdpa_kernel(backend):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

        return launch

    return {CUDNN: by(SDPBackend.CUDNN_ATTENTION), FLASH: by(SDPBackend.FLASH_ATTENTION)}
