"""What ptxas takes for the parts of the generation: none has all that another has."""

from __future__ import annotations

import pytest

from proof import gpu

HEAD = """.version 9.0\n.target {target}\n.address_size 64\n.visible .entry k()\n{{
    .reg .b32 %r<9>; .reg .f32 %f; .reg .b64 %rd<3>; .reg .pred p;
    {line}\n    ret;\n}}\n"""
PRODUCT = "tcgen05.mma.cta_group::1.kind::{} [%r1], %rd1, %rd2, %r2, p;"
MOST = "tcgen05.ld.red.sync.aligned.32x32b.x2.max.f32 {%r1, %r2}, %f, [%r3];"
TAKEN = {
    PRODUCT.format("f16"): {"sm_100a", "sm_103a"},
    PRODUCT.format("i8"): {"sm_100a"},
    MOST: {"sm_103a"},
}


@pytest.mark.nvcc
@pytest.mark.parametrize("target", ["sm_100a", "sm_103a", "sm_120a"])
@pytest.mark.parametrize("line", TAKEN)
def test_what_ptxas_takes_for_a_part(line: str, target: str) -> None:
    text = HEAD.format(target=target, line=line)
    if target in TAKEN[line]:
        assert gpu.assemble(text, target)
    else:
        with pytest.raises(gpu.CudaError, match=f"not supported on .target '{target}'"):
            gpu.assemble(text, target)


@pytest.mark.nvcc
def test_ptxas_refuses_two_groups_in_a_kernel() -> None:
    one = PRODUCT.format("f16")
    text = HEAD.format(target="sm_100a", line=one + one.replace("group::1", "group::2"))
    with pytest.raises(gpu.CudaError, match=r"uses single CTA.* and CTA pair granularity"):
        gpu.assemble(text, "sm_100a")
