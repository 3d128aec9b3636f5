"""The first product with one instruction left out each, and what the emulator says of it."""

from __future__ import annotations

from phasebit import files
from phasebit.edits import replace_once

LEFT_OUT = {
    "as it is": "",
    "no fence.proxy.async": "        ptx::fence_proxy_async_shared();",
    "no wgmma.fence": "        ptx::wgmma_fence();",
    "no wgmma.commit_group": "        ptx::wgmma_commit_group();",
    "no wgmma.wait_group": "        ptx::wgmma_wait_group<0>();",
}
"""Mistake -> the statement that is not there."""


def text(mistake: str) -> str:
    """The kernel without that statement; raises ``ValueError`` when its file is not what it was."""
    whole, gone = files.kernel("warpgroup_products/wgmma"), LEFT_OUT[mistake]
    return replace_once(whole, gone, "", "wgmma.cu") if gone else whole


def told() -> dict[str, str]:
    """Mistake -> the first rule that is broken and the line, or whether the product is right."""
    import numpy as np

    from phasebit.emulator import formats
    from phasebit.launching.launch import compile

    draw = np.random.default_rng(16)
    a, b = (draw.integers(-4, 5, (rows, 72)).astype(np.float64) for rows in (64, 128))
    bits = [np.asarray(formats.encode("bf16", each)) for each in (a, b)]
    said = {}
    for mistake in LEFT_OUT:
        c = np.full((64, 128), np.nan, np.float32)
        kernel = compile(text(mistake), "sm_90a")["matmul"]
        run = kernel.launch((1, 1), 128, [*bits, c, 64, 128, 72])
        if run.findings:
            first = run.findings[0]
            said[mistake] = f"{first.rule}, line {first.lines[0]}"
        else:
            said[mistake] = f"right: {np.array_equal(c, a @ b.T)}, no finding"
    return said
