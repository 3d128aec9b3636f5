"""``python -m phasebit prove``: bits beside bits, kept after each launch, taken up where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from phasebit import chapters, files, hardware, measure, proving, recording, toolchain
from phasebit.chapters.cute_dsl import cute_ptx
from phasebit.launching import build
from phasebit.launching.two_devices import Case

B200 = hardware.Gpu("NVIDIA B200", (10, 0), "580.1")
B300 = hardware.Gpu("NVIDIA B300", (10, 3), "580.1")
RTX = hardware.Gpu("NVIDIA RTX PRO 6000", (12, 0), "580.1")
H200 = hardware.Gpu("NVIDIA H200", (9, 0), "580.1")
FACTS = {"gpu": B200.name, "driver": "580.1", "cuda": "13.0", "target": "sm_100a",
         "date": "2026-11-23"}  # fmt: skip
Outputs = Mapping[str, np.ndarray]


@pytest.fixture
def b200(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if a B200 were here; the record that it would write."""
    cute_ptx.record()  # it is read once, from where records are
    monkeypatch.setattr(measure, "gpu", lambda: B200)
    monkeypatch.setattr(measure, "facts", lambda: FACTS)
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    return tmp_path / "proved.nvidia-b200.json"


def case(there: object, here: object, source: str = "x", log: list[str] | None = None,
         target: str = "sm_100a") -> Case:  # fmt: skip
    def launch(device: str) -> Outputs:
        if log is not None:
            log.append(device)
        return {"C": np.array(there if device == "gpu" else here, np.float32)}

    return Case("one", source, target, 1.0, launch)


def test_the_same_bits(b200: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert proving.prove({"a: one": case([1, np.nan], [1, np.nan])}) == 0
    said = capsys.readouterr().out
    assert said.startswith("⏱ 1 launches, 0 of them compared before; the others take about 1 s")
    assert "all 2 elements agree" in said and "1 of 1 launches agree in every bit" in said
    found = json.loads(b200.read_text())["cases"]["a: one"]
    assert (found["elements"], found["differ"]) == (2, 0)


@pytest.mark.parametrize(("there", "here"), [(0.0, -0.0), (1.0, 1.0000001), (np.nan, 1.0)])
def test_one_bit_is_seen(
    b200: Path, capsys: pytest.CaptureFixture[str], there: float, here: float
) -> None:
    assert proving.prove({"a: one": case([3, there], [3, here])}) == 1
    assert "a: one: 1 of 2 differ; C[1] is" in capsys.readouterr().out


def test_it_goes_on_where_it_was_stopped(b200: Path) -> None:
    log: list[str] = []

    def stop(device: str) -> Outputs:
        raise KeyboardInterrupt

    two = {"a: one": case(1, 1, log=log), "b: two": Case("two", "y", "sm_100a", 1.0, stop)}
    with pytest.raises(KeyboardInterrupt):
        proving.prove(two)
    two["b: two"] = case(2, 2, "y")
    assert proving.prove(two) == 0 and log == ["gpu", "emulator"]
    two["a: one"] = case(1, 1, "another kernel", log)
    assert proving.prove(two) == 0 and log == ["gpu", "emulator"] * 2


def test_only_what_is_asked_for(b200: Path) -> None:
    log: list[str] = []
    both = {"chain: one": case(1, 1, log=log), "other: one": case(1, 2)}
    assert proving.prove(both, ["chain"]) == 0 and log == ["gpu", "emulator"]


def test_another_gpu_is_refused_in_a_sentence(
    b200: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "gpu", lambda: H200)
    with pytest.raises(toolchain.CudaError, match=r"NVIDIA H200, runs sm_90a.*is for sm_100a:"):
        proving.prove({"a: one": case(1, 1)})
    module = chapters.load("chain", "record")
    with pytest.raises(toolchain.CudaError, match="runs sm_100a, a B200, and this one is NVIDIA H"):
        module.record()
    monkeypatch.setattr(hardware, "gpu", lambda: H200)
    assert "chain" in recording.possible()[1]
    monkeypatch.setattr(hardware, "gpu", lambda: B200)
    assert "chain" in recording.possible()[0]


def test_every_chapter_has_cases_with_names_of_their_own() -> None:
    known = proving.cases()
    assert len(known) >= 37 and {case.target for case in known.values()} == {"sm_100a"}
    assert {name.partition(":")[0] for name in known} == set(chapters.having("prove"))


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "name", ["tensor_memory: tcgen05.ld.16x256b", "chain: chain, 256 × 256 × 64",
             "one_thread_multiplies: f16 into f16, N = 32, majors and signs 0111",
             "one_thread_multiplies: s8 into s32", "one_thread_multiplies: e2m1 into f16"]
)  # fmt: skip
def test_a_case_with_the_emulator_as_its_gpu(b200: Path, name: str) -> None:
    chosen = proving.cases()[name]

    def launch(device: str) -> Outputs:
        return dict(chosen.launch("emulator"))

    twin = Case(chosen.name, chosen.source, chosen.target, chosen.seconds, launch)
    assert proving.prove({name: twin}) == 0


def test_what_is_one_chips_alone_is_left_out_on_the_next(
    b200: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = Case("i8", "x", "sm_100a", 1.0, case(1, 1).launch, family=False)
    known = {"a: one": case(1, 1), "a: i8": alone}
    monkeypatch.setattr(measure, "gpu", lambda: B300)
    proving.prove(known)
    assert "1 of 1 launches agree" in capsys.readouterr().out
    monkeypatch.setattr(measure, "gpu", lambda: B200)
    proving.prove(known)
    assert "2 of 2 launches agree" in capsys.readouterr().out


def test_what_has_no_tensor_memory_is_refused(
    b200: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measure, "gpu", lambda: RTX)
    with pytest.raises(toolchain.CudaError, match=r"6000, runs sm_120a.*is for sm_100a:"):
        proving.prove({"a: one": case(1, 1)})


@pytest.mark.nvcc
@pytest.mark.parametrize(
    "name", ["tensor_memory: tcgen05.ld.16x256b", "chain: pair, 256 × 256 × 64",
             "low_precision: nvfp4"]
)  # fmt: skip
def test_a_later_chip_of_the_family_gets_the_same_kernels(
    b200: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A B300 runs no machine code for ``sm_100a``; compiled for it, the kernels do the same."""
    assert not B300.executes("sm_100a") and B300.takes("sm_100a") and not B300.takes("sm_90a")
    chosen = next(case for each, case in proving.cases().items() if each.startswith(name))
    before = chosen.launch("emulator")
    monkeypatch.setattr(hardware, "gpu", lambda: B300)
    monkeypatch.setattr(measure, "gpu", lambda: B300)
    assert ".target sm_103a" in build.ptx(chosen.source, "sm_100a")

    def launch(device: str) -> Outputs:
        return before if device == "gpu" else chosen.launch(device)

    twin = Case(chosen.name, chosen.source, chosen.target, chosen.seconds, launch)
    assert proving.prove({name: twin}) == 0


@pytest.mark.nvcc
def test_the_kernels_to_be_timed_build_as_libraries() -> None:
    module = chapters.load("chain", "record")
    assert module.build(module.KERNELS["a pair"]).program.exists()


@pytest.mark.gpu
def test_on_this_gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel for any GPU: fused multiply-adds, and one that differs where the text differs."""
    from phasebit.launching.launch import compile

    gpu = measure.gpu()
    monkeypatch.setattr(files, "records", lambda: tmp_path)
    text = ("__global__ void chain(const float* x, float* y) { float s = 0; int t = threadIdx.x;"
            " for (int i = 0; i < 64; ++i) s = fmaf(s, x[(t + i) % 256], x[i]); y[t] = s; }")

    def launching(change: str) -> Callable[[str], Outputs]:
        def launch(device: str) -> Outputs:
            x = np.random.default_rng(1).standard_normal(256).astype(np.float32)
            y = np.zeros_like(x)
            used = text.replace("fmaf(s, ", change) if device == "gpu" else text
            compile(used, gpu.target)["chain"].launch(1, 256, [x, y], device=device)
            return {"y": y}

        return launch

    same = Case("same", text, gpu.target, 1.0, launching("fmaf(s, "))
    assert proving.prove({"here: same": same}) == 0
    other = Case("other", text, gpu.target, 1.0, launching("fmaf(-s, "))
    assert proving.prove({"here: same": same, "here: other": other}) == 1
