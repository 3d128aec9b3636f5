"""From the generated text back to PTX, and who may know an instruction by its name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from phasebit.emulator import Module

EMULATOR = Path(__file__).resolve().parents[2] / "phasebit" / "emulator"

MEET = """
.version 8.0
.target sm_90a
.address_size 64
.visible .entry meet(.param .u64 x)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [x];
    mov.u32 %r1, %laneid;
    shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1;
    bar.sync 0;
    @%p1 atom.global.add.u32 %r3, [%rd1], %r2;
    trap;
}
"""


@pytest.mark.parametrize("check", [False, True])
def test_what_may_ask_for_its_instruction_has_its_number(check: bool) -> None:
    program = Module(MEET)["meet"].program(check, True)
    lines = program.source.splitlines()
    told = [(i, int(found[1])) for i, line in enumerate(lines)
            if (found := re.fullmatch(r" +g\.at = (\d+)", line))]  # fmt: skip
    names = [program.instructions[number].mnemonic for _, number in told]
    assert names == ["shfl", "bar", "atom", "trap"]
    for i, number in told:
        following = next(line for line in lines[i:] if "  # " in line)
        assert following.endswith(f"  # {program.instructions[number].line}: "
                                  f"{program.instructions[number].text}")  # fmt: skip


NAMED = re.compile(
    r"\.(?:mnemonic|opcode)\b(?: (?:==|!=|in|not in) |\.startswith)| in \w+\.mnemonic\b"
)


@pytest.mark.parametrize("room", ["machine", "copy_engine", "tensor_core", "ops", "checker"])
def test_a_room_asks_for_what_an_instruction_is_and_not_for_its_name(room: str) -> None:
    for path in (EMULATOR / room).glob("*.py"):
        assert not NAMED.search(path.read_text(encoding="utf-8")), path


def test_a_name_asked_for_is_found() -> None:
    assert NAMED.search('if instruction.mnemonic == "bar":')
    assert NAMED.search('if i.opcode.startswith("tcgen05"):')
    assert NAMED.search('if "matrix" in by.mnemonic:')
    assert not NAMED.search("name = instruction.mnemonic")
