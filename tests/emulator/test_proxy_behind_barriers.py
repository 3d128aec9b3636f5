"""A barrier of the block orders no proxies, whatever tells of it afterwards (PTX ISA 8.6).

All store, all meet, one thread tells another, which starts a bulk copy of what was stored.
"""

from __future__ import annotations

import numpy as np
import pytest

from phasebit.launching.launch import Module

TEXT = """
.version 8.7
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
    .shared .align 16 .b32 tile[64]; .shared .align 8 .b64 full; .shared .align 4 .b32 flag;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, tile;
    mad.lo.u32 %r2, %r1, 4, %r2; setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r1, 40;
    @%p1 mbarrier.init.shared::cta.b64 [full], 1; @%p1 st.shared.u32 [flag], 0;
    st.shared.u32 [%r2], %r1;
    FENCE
    bar.sync 0;
    @!%p1 bra HEAR; TELL bra LAST;
HEAR:
    @!%p2 bra LAST;
W:  HEARS @!%p3 bra W;
    BEHIND
    cp.async.bulk.global.shared::cta.bulk_group [%rd1], [tile], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;
LAST:
    ret;
}
"""
FENCE = "fence.proxy.async;"
LOOK = "ld.{}.cta.shared.u32 %r3, [flag]; setp.ne.u32 %p3, %r3, 0;"
WAYS = {
    "mbarrier": ("mbarrier.arrive.shared::cta.b64 _, [full];",
                 "mbarrier.try_wait.parity.shared::cta.b64 %p3, [full], 0;"),
    "release": ("st.release.cta.shared.u32 [flag], 1;", LOOK.format("acquire")),
    "fence": ("fence.acq_rel.cta; st.relaxed.cta.shared.u32 [flag], 1;", LOOK.format("acquire")),
}  # fmt: skip


@pytest.mark.parametrize(("fence", "behind"), [("", ""), (FENCE, ""), ("", FENCE)])
@pytest.mark.parametrize("way", WAYS)
def test_what_is_told_behind_a_barrier_has_passed_no_proxy_fence(
    way: str, fence: str, behind: str
) -> None:
    tell, hears = WAYS[way]
    text = TEXT.replace("FENCE", fence).replace("TELL", tell).replace("HEARS", hears)
    run = Module(text.replace("BEHIND", behind))["k"].launch(1, 64, [np.zeros(64, np.uint32)])
    found = {each.rule for each in run.findings}
    assert found == ({"missing-proxy-fence"} if not fence + behind else set())
