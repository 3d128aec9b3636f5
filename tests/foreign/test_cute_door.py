# mypy: ignore-errors
"""`phasebit.cute`: host code of CuTe DSL's as it stands, and mistakes that it has.

``pip install nvidia-cutlass-dsl``; with ``torch``, too, its tensors are asked.
"""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("cutlass", reason="nvidia-cutlass-dsl is not installed: NOT asked")

import cutlass
import cutlass.cute as cute
import cutlass.memory as memory
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import from_dlpack
from cutlass.utils import HardwareInfo

import phasebit.cute
from phasebit.doors import device_arrays
from phasebit.runtime import apart

pytestmark = pytest.mark.foreign

F32, THREADS = cutlass.Float32, 128


class Turn:
    """A transpose: tiles come by the copy engine and leave by threads."""

    def __init__(self, waits=True):
        self.waits = waits

    @cute.jit
    def __call__(self, a: cute.Tensor, out: cute.Tensor):
        layout = cute.make_layout((32, 64), stride=(64, 1))
        load = cpasync.CopyBulkTensorTileG2SOp()
        copy, box = cpasync.make_tiled_tma_atom(load, a, layout, (32, 64))
        grid = (cute.ceil_div(a.shape[0], 32), cute.ceil_div(a.shape[1], 64), 1)
        self.kernel(copy, box, out, layout).launch(grid=grid, block=(THREADS, 1, 1))

    @cute.kernel
    def kernel(self, copy: cute.CopyAtom, box: cute.Tensor, out: cute.Tensor,
               layout: cute.Layout):  # fmt: skip
        thread, _, _ = cute.arch.thread_idx()
        x, y, _ = cute.arch.block_idx()
        store = memory.SmemAllocator()
        tile = store.allocate_tensor(F32, layout, 128)
        full = store.allocate_array(cutlass.Int64, 1)
        if thread == 0:
            cute.arch.mbarrier_init(full, 1)
            cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()
        part = cute.local_tile(box, (32, 64), (x, y))
        to, source = cpasync.tma_partition(copy, 0, cute.make_layout(1),
                                           cute.group_modes(tile, 0, 2),
                                           cute.group_modes(part, 0, 2))  # fmt: skip
        if thread // 32 == 0:
            with cute.arch.elect_one():
                cute.arch.mbarrier_arrive_and_expect_tx(full, 32 * 64 * 4)
            cute.copy(copy, source, to, tma_bar_ptr=full)
        if cutlass.const_expr(self.waits):
            cute.arch.mbarrier_wait(full, 0)
        for i in cutlass.range(thread, 32 * 64, THREADS):
            row, column = x * 32 + i % 32, y * 64 + i // 32
            if cute.elem_less((column, row), out.shape):
                out[column, row] = tile[i % 32, i // 32]


def line_of(text):
    """The line of this file that holds a text."""
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_arrays_of_the_host_and_a_tensor_map_that_the_host_code_writes(target):
    a = np.random.default_rng().random((100, 200), np.float32)
    out = np.full((200, 100), np.nan, np.float32)
    with phasebit.cute.emulated(target, schedules="all") as runs:
        Turn()(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    assert not runs.findings and np.array_equal(out, a.T)
    assert [one.grid for one in runs.launches] == [(4, 4, 1)]


def test_a_box_that_nobody_waits_for_is_told_with_the_line():
    with phasebit.cute.emulated("sm_90a") as runs:
        a, out = device_arrays.empty((32, 64)), device_arrays.empty((64, 32))
        Turn(waits=False)(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    place = f"test_cute_door.py:{line_of('out[column, row] = tile[')}"
    assert any(place in str(one) and "mbarrier" in str(one) for one in runs.findings), runs


def test_a_compiled_function_is_called_again_in_a_later_block():
    a = np.ones((32, 64), np.float32)
    with phasebit.cute.emulated("sm_90a"):
        out = np.zeros((64, 32), np.float32)
        compiled = cute.compile(Turn(), from_dlpack(a, assumed_align=16),
                                from_dlpack(out, assumed_align=16))  # fmt: skip
        assert not out.any()
    with phasebit.cute.emulated("sm_90a", schedules="all") as runs:
        compiled(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
    assert not runs.findings and out.all()


def test_what_the_hardware_is_asked_for():
    with phasebit.cute.emulated("sm_100a"):
        asked = HardwareInfo()
        assert asked.get_max_active_clusters(2) == asked.get_device_multiprocessor_count() // 2


def test_tensors_of_torch():
    torch = pytest.importorskip("torch", reason="torch is not installed: NOT asked")
    host = torch.rand(32, 64)
    with phasebit.cute.emulated("sm_90a") as runs:
        a, out = host.cuda(), torch.zeros(64, 32, device="cuda")
        Turn()(from_dlpack(a, assumed_align=16), from_dlpack(out, assumed_align=16))
        assert torch.equal(out.cpu(), host.T)
    assert not runs.findings


PROGRAM = """
import sys
import cutlass, cutlass.cute as cute, cutlass.memory as memory
import numpy as np
from cutlass.cute.runtime import from_dlpack

class Reverse:
    @cute.jit
    def __call__(self, out: cute.Tensor):
        self.kernel(out).launch(grid=(1, 1, 1), block=(64, 1, 1))

    @cute.kernel
    def kernel(self, out: cute.Tensor):
        thread, _, _ = cute.arch.thread_idx()
        line = memory.SmemAllocator().allocate_tensor(cutlass.Int32, cute.make_layout(64), 16)
        line[thread] = thread
        WAIT
        out[thread] = line[63 - thread]

out = np.zeros(64, np.int32)
Reverse()(from_dlpack(out, assumed_align=16))
print(sys.argv[1:], out[0])
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize(("wait", "rules"), [("pass", {"race"}),
                                             ("cute.arch.sync_threads()", set())])  # fmt: skip
def test_a_whole_program_is_run_with_its_arguments_and_its_status(wait, rules, tmp_path):
    program = tmp_path / "reverse.py"
    program.write_text(PROGRAM.replace("WAIT", wait))
    done, told = apart.reported(
        lambda file: ["phasebit.cute", "--target", "sm_80", "--report", file, program, "3"], 120
    )
    assert (done.stdout, done.status) == ("['3'] 63\n", 3), done.stderr
    assert {one.rule for one in told.findings} == rules
    assert told.end is not None and told.end.status == 3
    if rules:
        text = str(told.findings[0])
        assert f"reverse.py:{PROGRAM[: PROGRAM.index('line[63')].count(chr(10)) + 1}" in text
