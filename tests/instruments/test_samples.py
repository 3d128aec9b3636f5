"""Nsight Compute's page of machine code with samples."""

from __future__ import annotations

import pytest

from phasebit import toolchain
from phasebit.instruments import samples

PAGE = """\
"Kernel Name","attention"
"Address","Source","# Samples","stall_math","stall_wait","stall_wait (Not Issued)"
"0x10","      MUFU.EX2 R1, R1 ","9","5","4","3"
"0x20","@!P0  WARPGROUP.DEPBAR.LE gsb0, 0x1 ","1","0","1","1"
"0x30","      HGMMA.64x128x16.F32.BF16 R24, gdesc[UR12], R24, gsb0 ","0","0","0","0"
"""


def test_the_source_page_is_read() -> None:
    assert samples.parse_source(PAGE) == [
        "MUFU.EX2 math 5, wait 4",
        "WARPGROUP.DEPBAR.LE 0x1 wait 1",
        "HGMMA.64x128x16.F32.BF16 gsb0 ",
    ]
    with pytest.raises(toolchain.CudaError, match="no machine code: ==ERROR"):
        samples.parse_source("==ERROR== none")
    with pytest.raises(toolchain.CudaError, match="no samples: Address, Source"):
        samples.parse_source(
            PAGE.replace('"5","4"', '"0","0"').replace('"1","0","1"', '"0","0","0"')
        )
