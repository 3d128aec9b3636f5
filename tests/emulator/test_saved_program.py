"""What was translated, saved and loaded again does what it did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phasebit.emulator import Kernel, Module
from phasebit.emulator.codegen import saved_program
from phasebit.emulator.codegen.translated_program import TranslatedProgram
from phasebit.emulator.ops.floating import FAST
from phasebit.emulator.ptx.table import TABLE, entries, filled, value
from tests.foreign.saved import Saved

COMPILED = Path(__file__).with_name("compiled")


class LoadedKernel(Kernel):
    def translated(self, *how: bool) -> TranslatedProgram:
        return saved_program.load(saved_program.save(super().translated(*how)))


class LoadedModule(Module):
    kernel_type = LoadedKernel

    def read(self, ptx: str) -> Any:
        return saved_program.load(saved_program.save(super().read(ptx)))


@pytest.mark.parametrize("check", [True, False])
def test_a_loaded_program_computes_the_same(check: bool) -> None:
    rng = np.random.default_rng(3)
    a = rng.integers(-4, 5, (128, 64)).astype(np.float16)
    b = rng.integers(-4, 5, (64, 128)).astype(np.float16)
    text = (COMPILED / "triton_matmul.ptx").read_text(encoding="utf-8")
    seen = []
    for kind in (Module, LoadedModule):
        module, c = kind(text), np.full((128, 128), np.nan, np.float32)
        (kernel,) = (module[name] for name in module.kernels)
        more = [0] * (len(kernel.function.parameters) - 6)
        run = kernel.launch((2, 2), 128, [a, b, c, 128, 128, 64, *more], shared=16384, check=check)
        assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
        seen.append((dict(run.counters), run.cycles, kernel.python(check), run.findings))
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "name", ["gluon_roles_sm_90", "triton_maps_made_here_sm_100", "cute_scaled_mxf8"]
)
def test_a_loaded_kernel_of_others_multiplies(name: str) -> None:
    saved = Saved.load(name)
    module = LoadedModule(saved.about["ptx"])
    saved.kernel = module[module.kernels[0]]  # type: ignore[assignment]
    right, run = saved.multiply("random", 1)
    assert right and not run.findings


RACE = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .shared .align 4 .b32 s[32];
  .reg .b32 %r<4>; .reg .b64 %d<2>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [s], %r1;
  ret;
}
"""


def test_a_program_holds_the_functions_that_it_reaches_and_no_others() -> None:
    head = ".version 8.0 .target sm_80 .address_size 64\n"
    many = "add.u32 %r1, %r1, 1;\n" * 2000
    one = """.func (.param .b32 o) twice(.param .b32 i) { .reg .u32 %r;
        ld.param.u32 %r, [i]; add.u32 %r, %r, %r; st.param.b32 [o], %r; ret; }
        .entry one(.param .u64 p) { .reg .u64 %a; .reg .u32 %r<3>;
        ld.param.u64 %a, [p]; mov.u32 %r1, 21;
        { .param .b32 i; .param .b32 o; st.param.b32 [i], %r1; call (o), twice, (i);
          ld.param.b32 %r2, [o]; }
        st.global.u32 [%a], %r2; ret; }"""
    other = f".entry other() {{ .reg .u32 %r<2>; mov.u32 %r1, 0; {many} ret; }}"
    alone, both = (
        saved_program.save(Module(text)["one"].translated(True, False, False, None))
        for text in (head + one, head + one + other)
    )
    assert len(both) < len(alone) + 500
    out = np.zeros(1, np.uint32)
    LoadedModule(head + other + one)["one"].launch(1, 1, [out])
    assert out[0] == 42


def test_a_loaded_program_is_watched_and_says_its_lines() -> None:
    told = []
    for kind in (Module, LoadedModule):
        run = kind(RACE)["k"].launch(1, 64, [np.zeros(1, np.int64)])
        told.append([str(finding) for finding in run.findings])
    assert told[0] == told[1] and "PTX line 9" in told[0][0]


def test_a_loaded_program_has_the_same_accesses_joined() -> None:
    """Two stores of 4 bytes at a multiple of 8 are one of 8."""
    text = RACE.replace("[s], %r1;", "[s], %r1; st.shared.u32 [s+4], %r1;")
    for kind in (Module, LoadedModule):
        run = kind(text)["k"].launch(1, 1, [np.zeros(1, np.int64)], accesses=True)
        assert [each.size for each in run.accesses] == [8]


@pytest.mark.parametrize("name", sorted({entry.name for entry in entries()}))
def test_a_loaded_instruction_is_the_one_of_the_table(name: str) -> None:
    for entry in entries():
        if entry.name == name:
            assert saved_program.load(saved_program.save(entry)) is entry
            function = filled(entry.function, rounding="rn")
            assert saved_program.load(saved_program.save(function)) is function


def test_functions_of_numpy_and_forms_are_the_same_objects() -> None:
    things = [*FAST.values(), *(np.dtype(form) for form in ("u1", "i4", "f2", "f8", "?"))]
    assert all(saved_program.load(saved_program.save(thing)) is thing for thing in things)


def test_what_an_own_instruction_would_make_has_no_maker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = saved_program.maker()
    assert before
    monkeypatch.setitem(TABLE, "own", [])
    value("own", "x -> x", ["u32"], section="none")(lambda x: x)
    assert saved_program.maker() is None


def test_another_package_is_another_maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = saved_program.maker()
    (tmp_path / "a.py").write_text("1")
    monkeypatch.setattr(saved_program, "_PACKAGE", tmp_path)
    makers = {before}
    for text in ("1", "2"):
        (tmp_path / "a.py").write_text(text)
        saved_program._package.cache_clear()
        makers.add(saved_program.maker())
    saved_program._package.cache_clear()
    assert len(makers) == 3
