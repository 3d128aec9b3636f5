"""Threads of the host that launch kernels of one module, whose memory grows meanwhile."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import phasebit as pb

PTX = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry add(.param .u64 p)
{
    .reg .b32 %r<3>; .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd1, %rd1, %rd2;
    ld.global.u32 %r2, [%rd1];
    add.u32 %r2, %r2, 1;
    st.global.u32 [%rd1], %r2;
    ret;
}
"""


@pytest.fixture(autouse=True)
def by_short_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("how", [{}, {"schedule": "every"}], ids=["late", "every"])
def test_threads_take_turns(how: dict[str, Any]) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        try:
            for turn in range(5):
                x = np.full(64 + (number + 1 << 12 + turn), number, np.uint32)
                run = kernel.launch(1, 64, [x], **how)
                right = (x[:64] == number + 1).all() and (x[64:] == number).all()
                wrong.extend(run.findings if right else [number])
        except Exception as error:
            wrong.append(error)

    for _ in range(2):
        kernel = pb.Module(PTX)["add"]  # each with little memory at first
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
