"""The GPU runner against a driver that is a stand-in."""

from __future__ import annotations

import numpy as np
import pytest
from fake_driver import FakeDriver

from phasebit.launching.driver import Driver
from phasebit.toolchain import CudaError
from proof import gpu
from proof.batches import Batch
from proof.program import Program


def _add(inputs, outputs, threads):
    outputs[:threads] = inputs[:threads] + inputs[threads : 2 * threads]


def test_inputs_go_in_and_answers_come_out():
    small = Program("add", "", ("b32", "b32"), ("b64",), ("add.u64",), "integer", threads=32)
    large = Program("add", "", ("b32", "b32"), ("b64",), ("add.u64",), "integer", threads=256)
    driver = FakeDriver({"add": _add})
    device = gpu.Gpu(Driver(driver))
    assert repr(device) == "a fake"
    for program in (small, large, small):
        answers = device.run(device.driver.load(b""), program)
        assert answers.shape == (1, program.lanes)
        assert (answers[0] == program.draw().sum(axis=0)).all()
    assert len(driver.memory) == 2, "one block of memory for inputs, one for outputs, grown once"


def test_the_drivers_refusal_is_an_error_in_its_words():
    program = Program("add", "", ("b32", "b32"), ("b64",), ("add.u64",), "integer")
    device = gpu.Gpu(Driver(FakeDriver({"add": _add}, fail="cuMemcpyDtoH_v2")))
    with pytest.raises(CudaError, match=r"cuMemcpyDtoH_v2 on a fake: misaligned address \(716\)"):
        device.run(device.driver.load(b""), program)


def test_a_driver_that_is_older_than_the_ptx_says_what_to_do():
    driver = Driver(FakeDriver({}, fail="cuModuleLoadDataEx", code=222))
    with pytest.raises(CudaError, match=r"a fake: its driver is older than .* update"):
        driver.module(".version 9.4")


@pytest.mark.nvcc
def test_batches_are_assembled_and_run_in_parallel():
    batch = Batch("forms", 0, 3)
    names = [p.name for p in batch.programs()]

    def kernel(inputs, outputs, threads):
        outputs[:threads] = np.uint64(7)

    device = gpu.Gpu(Driver(FakeDriver(dict.fromkeys(names, kernel))))
    done = list(gpu.run([batch], jobs=1, gpu=device))
    assert [p.name for p, _ in done] == names
    assert all((a[0] == 7).all() for _, a in done)


@pytest.mark.nvcc
def test_the_assemblers_complaint_is_kept():
    with pytest.raises(CudaError, match="ptxas"):
        gpu.assemble(".version 8.8\n.target sm_90a\n.address_size 64\n.entry k() { bogus.s32; }")
