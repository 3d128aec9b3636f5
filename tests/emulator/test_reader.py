"""Reading PTX text: every piece of syntax nvcc writes, and errors that name the line."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phasebit.emulator.errors import EmulatorError, PtxError
from phasebit.emulator.ptx.placement import _called
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Label,
    Not,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.launching.launch import Module

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def body(
    text: str, registers: str = ".reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>;"
) -> list[object]:
    """The flattened body of a kernel."""
    module = read(f"{HEAD}.visible .entry k(.param .u64 a)\n{{\n{registers}\n{text}\n}}\n")
    return list(module.functions["k"].body)


def one(text: str) -> Instruction:
    (instruction,) = body(text)
    assert isinstance(instruction, Instruction)
    return instruction


def test_opcode_and_modifiers() -> None:
    i = one("mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1+8], %r2;")
    assert i.mnemonic == "mbarrier"
    assert i.modifiers == ("try_wait", "parity", "shared::cta", "b64")
    assert isinstance(i.operands[1], Address) and i.operands[1].offset == 8


def test_operands_of_every_kind() -> None:
    i = one(
        "op.x %r1, {%r2, _}, %r3|%p1, !%p2, -7, 0f3F800000, %tid.x, name+4, (%r4), [n], [%r1+-4];"
    )
    kinds = [type(o) for o in i.operands]
    assert kinds == [Register, Vector, Pair, Not, Immediate, Immediate, Special, Symbol, Tuple,
                     Address, Address]  # fmt: skip
    vector = i.operands[1]
    assert isinstance(vector, Vector) and isinstance(vector.items[1], Sink)
    assert i.operands[5] == Immediate(1.0, 0x3F800000)
    assert i.operands[7] == Symbol("name", 4)
    assert i.operands[10].offset == -4  # type: ignore[union-attr]


def test_tensor_coordinates_in_an_address() -> None:
    i = one("cp.async.bulk.tensor.2d.shared::cluster.global [%r1], [%rd1, {%r2, %r3}], [%r4];")
    address = i.operands[1]
    assert isinstance(address, Address) and isinstance(address.rest[0], Vector)


@pytest.mark.parametrize(
    ("text", "value"),
    [("42", 42), ("0x2A", 42), ("052", 42), ("0b101010", 42), ("42U", 42), ("-0x2A", -42),
     ("0d4045000000000000", 42.0), ("4.2e1", 42.0)],
)  # fmt: skip
def test_numbers(text: str, value: float) -> None:
    operand = one(f"op {text};").operands[0]
    assert isinstance(operand, Immediate) and operand.value == value


def test_scopes_have_their_own_registers_and_labels() -> None:
    scope = "{ .reg .pred p; LAB: setp.eq.s32 p, %r1, 0; @p bra LAB; }"
    first, second = body(f"{scope}\n{scope}")[:3], body(f"{scope}\n{scope}")[3:]
    labels = [x.name for x in (*first, *second) if isinstance(x, Label)]
    assert len(set(labels)) == 2
    jumps = [x for x in (*first, *second) if isinstance(x, Instruction) and x.mnemonic == "bra"]
    assert [j.operands[0] for j in jumps] == [Symbol(name) for name in labels]
    guards = {j.guard.index for j in jumps if j.guard}
    assert len(guards) == 2


def test_guard_and_several_instructions_on_a_line() -> None:
    first, second = body("@!%p1 add.s32 %r1, %r1, 1; /* comment */ exit; // end")
    assert isinstance(first, Instruction) and first.guard_negated and first.guard
    assert isinstance(second, Instruction) and second.mnemonic == "exit"


def test_variables_with_initialisers() -> None:
    module = read(
        HEAD + ".global .align 4 .b8 text[6] = {104, 105};\n"
        ".const .f32 c[2] = {0f3F800000, 0f40000000};\n"
        ".global .u64 table[2] = {f, generic(text)};\n"
        ".extern .shared .align 16 .b8 box[];\n.func f() { ret; }\n"
    )
    assert module.variables["text"].size == 6
    assert module.variables["box"].elements == 0
    assert module.variables["table"].initial == [Symbol("f"), Symbol("text")]


def test_source_locations_follow_inlining() -> None:
    module = read(
        HEAD + ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.loc 1 10 3\n"
        ".loc 2 77 5, function_name $L1, inlined_at 1 10 3\nmov.u32 %r1, 5;\nret;\n}\n"
        '.file 1 "/home/me/kernel.cu"\n.file 2 "/usr/include/header.h"\n'
    )
    instruction = module.functions["k"].body[0]
    assert isinstance(instruction, Instruction) and instruction.location
    location = instruction.location
    assert (location.file, location.line) == ("header.h", 77)
    assert str(location) == "kernel.cu:10"
    assert str(instruction.where) == "PTX line 9 (kernel.cu:10)"


DEBUG_NAMES = """.section .debug_str
{
$L__info_string0:
.b8 95,90,52,119,97,105,116,105,0
$L__info_string1:
.b8 116,114,121
.b8 95,111,110,99,101,0
$L__info_string2:
.b8 95,90,78,50,110,115,52,119,97,105,116,69,105,0
}
"""


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("$L__info_string0", "kernel.cu:41, in wait at line 12"),
        ("$L__info_string0 + 9", "kernel.cu:41, in try_once at line 12"),
        ("$L__info_string1", "kernel.cu:41, in try_once at line 12"),
        ("$L__info_string2", "kernel.cu:41, in wait at line 12"),  # ns::wait
        ("$L__info_string7", "kernel.cu:41, in an inlined function at line 12"),
    ],
)
def test_an_inlined_place_is_named_from_the_kernel_inwards(name: str, place: str) -> None:
    module = read(
        HEAD + ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.loc 1 41 3\n"
        f".loc 1 12 5, function_name {name}, inlined_at 1 41 3\n"
        ".loc 2 77 5, function_name $L__info_string1, inlined_at 1 12 5\nmov.u32 %r1, 5;\nret;\n}\n"
        '.file 1 "/home/me/kernel.cu"\n.file 2 "/usr/include/header.h"\n' + DEBUG_NAMES
    )
    instruction = module.functions["k"].body[0]
    assert isinstance(instruction, Instruction)
    assert str(instruction.where) == f"PTX line 10 ({place})"


def test_branch_tables_and_prototypes() -> None:
    module = read(
        HEAD + ".visible .entry k()\n{\n.reg .b32 %r<4>;\nT: .branchtargets A, B;\n"
        "P: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
        "brx.idx %r1, T;\nA: exit;\nB: ret;\n}\n"
    )
    assert module.functions["k"].branch_tables == {"T": ("A", "B")}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 1, "begins with .version"),
        (".version 9.0\n.target sm_90a\n.address_size 32\n", 3, "64-bit"),
        (HEAD + ".visible .entry k()\n{\nmov.u32 %r1, 5;\n}", 6, "%r1 is not declared"),
        (
            HEAD + ".visible .entry k()\n{\n.reg .b32 %r<2>;\nbra NOWHERE;\n}",
            7,
            "no label 'NOWHERE'",
        ),
        (HEAD + ".visible .entry k()\n{\n.reg .f33 %r<2>;\n}", 6, "unknown register type '.f33'"),
        (HEAD + ".visible .entry k()\n{\nret;", 6, "never closed"),
        (HEAD + ".visible .entry k()\n{\nret?;\n}", 6, "'?'"),
        (HEAD + ".global .b32 x = ;\n", 4, "expected a number"),
        (HEAD + "/* open", 4, "comment never ends"),
        (HEAD + ".file 1  /* open", 4, "comment never ends"),
        (HEAD + ".file 1 \t?", 4, "the character '?' does not belong"),
        (HEAD + ".visible .entry k()\n{\nL: ret;\nL: ret;\n}", 7, "defined twice"),
    ],
)
def test_errors_name_the_line(text: str, line: int, words: str) -> None:
    with pytest.raises(PtxError) as caught:
        read(text)
    assert words in str(caught.value)
    assert caught.value.line == line


def test_an_unknown_instruction_names_itself_its_line_and_its_source() -> None:
    module = Module(
        HEAD
        + ".visible .entry k()\n{\n.reg .b32 %r<4>;\n.loc 1 12 3\nfrob.u32 %r1, %r2;\nret;\n}\n"
        '.file 1 "a.cu"\n'
    )
    with pytest.raises(PtxError, match=r"PTX line 8: .*'frob.u32'.*\(from a.cu:12\)"):
        module["k"].program()


def test_an_unknown_form_of_a_known_instruction_says_which_are_known() -> None:
    module = Module(
        HEAD + ".visible .entry k()\n{\n.reg .b32 %r<4>;\nmul.upper.u32 %r1, %r2, %r3;\nret;\n}\n"
    )
    with pytest.raises(PtxError, match=r"mul\.hi.*mul\.lo"):
        module["k"].program()


SAMPLE = (
    HEAD
    + """
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>;
    .shared .align 4 .b8 box[128];
    ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n];
    cvta.to.global.u64 %rd2, %rd1;
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra DONE;
    shl.b32 %r3, %r2, 2; mov.u32 %r4, box; add.s32 %r4, %r4, %r3;
    st.shared.u32 [%r4], %r2; ld.shared.u32 %r5, [%r4];
    mul.wide.u32 %rd3, %r2, 4; add.s64 %rd3, %rd2, %rd3;
    st.global.u32 [%rd3], %r5;
DONE:
    ret;
}
"""
)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_damaged_text_gives_a_result_or_a_clear_error(data: st.DataObject) -> None:
    import numpy as np

    text = SAMPLE
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = data.draw(st.integers(start, min(len(text), start + 12)))
        with_ = data.draw(
            st.sampled_from(["", ";", "{", "}", "%r1", ".b32", "0x", '"', "[", "@", "9"])
        )
        text = text[:start] + with_ + text[stop:]
    out = np.zeros(32, np.uint32)
    try:
        Module(text)["k"].launch(1, 32, [out, 32], max_steps=1000)
    except EmulatorError as error:
        assert str(error)


@pytest.mark.parametrize("end", range(0, len(SAMPLE), 37))
def test_truncated_text(end: int) -> None:
    try:
        read(SAMPLE[:end])
    except PtxError as error:
        assert error.line is not None and "PTX line" in str(error)


def test_a_single_register_of_an_inner_scope_hides_the_outer_one_there_alone() -> None:
    body = "mov.u32 t, 1; { .reg .b32 t; mov.u32 t, 2; } mov.u32 t, 3; ret;"
    module = read(HEAD + ".visible .entry k()\n{\n.reg .b32 t;\n" + body + "\n}\n")
    moves = [each for each in module.functions["k"].body if each.mnemonic == "mov"]  # type: ignore[union-attr]
    first, inner, last = (each.operands[0] for each in moves)  # type: ignore[union-attr]
    assert first is last and inner is not first


def test_shared_variables_begin_at_zero_and_are_aligned() -> None:
    """The first may lie anywhere, the second at a multiple of four, what has no size at 16."""
    kernel = ".visible .entry k()\n{\n.shared .align 1 .b8 a[3];\n.shared .align 4 .b32 b;\n"
    body = "\n.reg .b32 %r<4>;\nmov.u32 %r1, a;\nmov.u32 %r2, b;\nmov.u32 %r3, rest;\nret;\n}\n"
    text = HEAD + ".extern .shared .align 4 .b8 rest[];\n" + kernel + body
    layout = Module(text)["k"].layout
    assert layout.shared == {"a": 0, "b": 4, "rest": 16}


@pytest.mark.parametrize(
    ("text", "size", "align"),
    [(".shared .v2 .f32 x;", 8, 8), (".shared .v4 .u16 x[3];", 24, 8),
     (".shared .align 32 .v4 .b32 x;", 16, 32), (".shared .b8 x[7];", 7, 1)],
)  # fmt: skip
def test_the_size_of_a_variable_of_vectors(text: str, size: int, align: int) -> None:
    module = read(f"{HEAD}.visible .entry k()\n{{\n{text}\nret;\n}}\n")
    (variable,) = module.functions["k"].variables
    assert (variable.size, variable.align) == (size, align)


def test_two_things_that_say_the_same_are_two() -> None:
    """They are keys of dictionaries: equal text elsewhere is something else."""
    first, second = body("mov.u32 %r1, 1; mov.u32 %r1, 1;")
    assert first != second and len({first, second}) == 2
    text = f"{HEAD}.visible .entry k(.param .u64 a)\n{{\nret;\n}}\n"
    (one_a,), (other_a,) = (read(text).functions["k"].parameters for _ in range(2))
    assert one_a != other_a and len({one_a, other_a}) == 2
    assert (one_a.elements, one_a.initial, one_a.pointer) == (None, None, False)
    assert (one_a.extern, one_a.weak) == (False, False)


@pytest.mark.parametrize(
    ("text", "name"),
    [("call.uni f;", "f"), ("call (r), f, (a, b);", "f"), ("call f, (a);", "f"),
     ("call (r), %rd1, (a), proto;", None), ("call %rd1, (a), proto;", None)],
)  # fmt: skip
def test_which_function_a_call_names(text: str, name: str | None) -> None:
    assert _called(one(text)) == name
