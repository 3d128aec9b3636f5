"""What *Measuring honestly* adds: stamps in the product, and ceilings for as long as one asks."""

from __future__ import annotations

import re

import pytest

from phasebit import files
from phasebit.chapters.measuring import measuring_controls as controls
from phasebit.edits import replace_once
from tests.kernels import targets
from tests.kernels.emulated import emulate

LIMIT = "measuring/at_limit"


def test_the_stamps_are_all_that_is_new() -> None:
    """The sum of ``stamped`` is that of ``matvec``, line by line."""
    own, new = (
        files.kernel(f"measuring/{name}").split(f"\n{kernel}(")[1].split("\n}\n")[0]
        for name, kernel in (("matvec", "matvec"), ("gaps", "stamped"))
    )
    lines = [line.strip() for line in new.splitlines()]
    for line in own.splitlines()[1:]:
        code = line.strip()
        if code.startswith(("if (row >= M)", "float* __restrict__ y)", "{")):
            continue
        assert code in lines, code


def test_the_record_names_what_the_program_keeps() -> None:
    text = files.kernel("measuring/gaps")
    for words in (*controls.WAYS, *controls.STAMPED):
        assert f'"{words}"' in text or f'": {words}"' in text, words
    limit = files.kernel(LIMIT)
    assert all(f'"{name}"' in limit for name in controls.CEILINGS)


@pytest.mark.nvcc
def test_the_ceilings_compile_for_hopper() -> None:
    built = targets.assemble(files.kernel(LIMIT), "sm_90a")
    assert built.warnings == "" and not any(use.spills for use in built.resources)


@pytest.mark.nvcc
@pytest.mark.parametrize("what", ["bf16 wgmma, normal, in turn", "f16 mma, normal, in turn"])
def test_a_ceiling_is_right_on_the_emulator(what: str) -> None:
    done = emulate(files.kernel(LIMIT), "--what", what, "--seconds", "0")
    assert done.ok and not done.stderr, done.stdout + done.stderr
    assert done.stdout == ("wgmma in turn: OK\n" if "wgmma" in what else "")


@pytest.mark.nvcc
def test_a_pair_of_tiles_too_often_is_seen() -> None:
    text = files.kernel(LIMIT)
    wrong = replace_once(text, "tile + (i + i / OTHERS) % OTHERS * TILE_BYTES + A_BYTES",
                         "tile + i % OTHERS * TILE_BYTES + A_BYTES")  # fmt: skip
    done = emulate(wrong, "--what", "bf16 wgmma, normal, in turn", "--seconds", "0", right=text)
    assert not done.ok and "wrong result of wgmma in turn" in done.stderr


@pytest.mark.nvcc
@pytest.mark.parametrize(
    ("arguments", "said"),
    [(("--what", "wgmma", "--seconds", "0"), "names no ceiling"), ((), "give --what NAME")],
)
def test_what_it_cannot_do_is_a_sentence(arguments: tuple[str, ...], said: str) -> None:
    done = emulate(files.kernel(LIMIT), *arguments)
    assert done.status == 1 and re.search(said, done.stderr)
