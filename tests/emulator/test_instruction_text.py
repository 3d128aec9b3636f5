"""The text of an instruction: tokens, operands, the guard, and where in the CUDA source it is."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.lexer import tokens
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Location,
    Not,
    Pair,
    Register,
    Sink,
    Special,
    Symbol,
    Vector,
)

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"
ENTRY = HEAD + ".visible .entry k()\n{\n"
REGISTERS = ".reg .b32 %r<20>; .reg .b64 %rd<4>; .reg .pred %p<4>;\n"


def one(text: str, before: str = "", after: str = "") -> Instruction:
    found = read(f"{before}{ENTRY}{REGISTERS}{text}\n}}\n{after}").functions["k"].body[-1]
    assert isinstance(found, Instruction)
    return found


def test_tokens_with_their_lines_and_places() -> None:
    text = 'a.b::c //x\n /* y\n\n */ "s" 0x1FU\t1.5e-3 0f3F800000,\n%r1'
    found = [(each.kind, each.text, each.line) for each in tokens(text)]
    assert found == [
        ("word", "a", 1), ("dot", ".b::c", 1), ("string", '"s"', 4), ("int", "0x1FU", 4),
        ("float", "1.5e-3", 4), ("bits", "0f3F800000", 4), ("mark", ",", 4), ("word", "%r1", 5),
        ("end", "the end of the text", 5),
    ]  # fmt: skip
    assert all(text[each.start : each.stop] == each.text for each in tokens(text)[:-1])
    assert tokens(text)[-1].start == tokens(text)[-1].stop == len(text)


@pytest.mark.parametrize(("text", "said"), [
    ("a\n/* b\n", "line 2: this comment never ends; close it with */"),
    ('a\n\n "b\n"', "line 3: this string never ends; close it on the same line"),
    ("a \t #", "line 1: the character '#' does not belong in PTX"),
    ("\n a/b", "line 2: the character '/' does not belong in PTX"),
])  # fmt: skip
def test_characters_that_ptx_does_not_have(text: str, said: str) -> None:
    with pytest.raises(PtxError) as refused:
        read(ENTRY.replace("\n", " ") + text)
    assert str(refused.value) == f"PTX {said}"


OPERANDS: list[tuple[str, Any]] = [
    ("%tid.x", Special("tid.x")), ("%laneid", Special("laneid")), ("WARP_SZ", Immediate(32)),
    ("%envreg0", Special("envreg0")), ("%envreg31", Special("envreg31")),
    ("%reserved_smem_offset_0", Special("reserved_smem_offset_0")),
    ("%reserved_smem_offset_1", Special("reserved_smem_offset_1")),
    ("%lanemask_lt", Special("lanemask_lt")), ("_", Sink()), ("x", Symbol("x")),
    ("x+4-1", Symbol("x", 3)), ("x-4", Symbol("x", -4)), ("-4", Immediate(-4)),
    ("+4", Immediate(4)), ("0f00000000", Immediate(0.0, 0)), ("[x+4]", Address(Symbol("x"), 4)),
    ("[x]", Address(Symbol("x"))), ("[64]", Address(Immediate(64))),
    ("[64+4]", Address(Immediate(64), 4)),
    ("[x+4, {1, 2}, 3]", Address(Symbol("x"), 4, (Vector((Immediate(1), Immediate(2))),
                                                  Immediate(3)))),
    ("{1, _}", Vector((Immediate(1), Sink()))), ("_|_", Pair(Sink(), Sink())),
]  # fmt: skip


@pytest.mark.parametrize(("text", "operand"), OPERANDS)
def test_an_operand(text: str, operand: Any) -> None:
    assert one(f"op {text};").operands == (operand,)


def test_operands_that_name_registers() -> None:
    a, b, c, d = one("op %r1, !%p1, [%r1+-4+2], %r1|%p1;").operands
    assert isinstance(a, Register) and isinstance(b, Not) and isinstance(c, Address)
    assert (a.name, b.operand.name) == ("%r1", "%p1") and (c.base, c.offset) == (a, -2)
    assert isinstance(d, Pair) and d.first is a and d.second is b.operand


WRONG = [
    ("op %envreg32;", "register %envreg32 is not declared"),
    ("op %reserved_smem_offset_2;", "register %reserved_smem_offset_2 is not declared"),
    ("op %r1 %r2;", "expected ',' but found '%r2'"), ("op {1 2};", "expected '}' but found '2'"),
    ("op (1 2);", "expected ',' but found '2'"), ("op [x;", "expected ']' but found ';'"),
    ("op !%q1;", "unknown register '%q1'"), ("op !5;", "expected a name but found '5'"),
    ("op );", "expected a name but found ')'"), ("op -x;", "expected a number but found 'x'"),
    ("@%r1 op;", "the guard '%r1' is not a predicate register"),
    ("@%q op;", "the guard '%q' is not a predicate register"),
    ("@!%r1 op;", "the guard '%r1' is not a predicate register"),
    ("@5 op;", "expected a name but found '5'"),
    ("op %r1, , %r2;", "expected a name but found ','"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "said"), WRONG)
def test_what_is_no_operand(text: str, said: str) -> None:
    with pytest.raises(PtxError) as refused:
        one(text)
    assert str(refused.value) == f"PTX line 7: {said}"


def test_the_text_of_an_instruction_is_one_line() -> None:
    found = one("@!%p1  op.x\n  %r1,\t%r2 ;")
    assert (found.text, found.line, found.opcode) == ("@!%p1 op.x %r1, %r2", 7, "op.x")
    assert found.guard_negated and found.guard is not None and found.guard.name == "%p1"
    plain = one("op;")
    assert (plain.text, plain.guard, plain.guard_negated, plain.operands) == ("op", None, False, ())


@pytest.mark.parametrize(("count", "text"), [
    (8, "op {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, 5"), (9, "op {%r0, …, %r8}, 5"),
    (17, "op {%r0, …, %r16}, 5"),
])  # fmt: skip
def test_long_lists_are_cut_short_in_messages(count: int, text: str) -> None:
    found = one(f"op {{{', '.join(f'%r{i}' for i in range(count))}}}, 5;")
    assert found.text == text
    assert len(found.operands[0].items) == count  # type: ignore[union-attr]


def test_the_carry_flag_is_an_operand() -> None:
    places = {"add.cc.u32": "first", "addc.u32": "last", "subc.u32": "last",
              "addc.cc.u32": "both", "add.u32": "", "sub.cc.u32": "first"}  # fmt: skip
    for text, where in places.items():
        operands = one(f"{text} %r1, %r2, %r3;").operands
        assert isinstance(operands[0], Pair) == (where in ("first", "both")), text
        assert len(operands) == 3 + (where in ("last", "both")), text
    assert len(one("madc.lo.u32 %r1, %r2, %r3, %r4;").operands) == 5
    assert one("op.cc;").operands == ()


def test_two_results_of_a_tensor_load_are_one_list() -> None:
    text = "tcgen05.ld.red.sync.aligned.32x32b.x2.min.f32 {%r1, %r2}, %r3, [%r4];"
    first, second = one(text).operands
    assert isinstance(first, Vector) and isinstance(second, Address)
    assert [each.name for each in first.items] == ["%r1", "%r2", "%r3"]  # type: ignore[union-attr]
    assert len(one(text.replace("ld.red", "ld")).operands) == 3
    assert len(one("tcgen05.ld.red [%r1];").operands) == 1


NVVM = "// Generated by NVIDIA NVVM Compiler\n"


@pytest.mark.parametrize(("before", "text", "generated"), [
    ("", "op;", False), (NVVM, "op;", True),
    (NVVM, "// begin inline asm\nop;", False),
    (NVVM, "// begin inline asm\nop;\n// end inline asm\nop;", True),
    (NVVM, "// begin inline asm\n// end inline asm\n// begin inline asm\nop;", False),
    ("// Generated by LLVM NVPTX Back-End\n", "op;", True),
    ("// Generated by LLVM NVPTX Back-End\n", "// begin inline asm\nop;", True),
])  # fmt: skip
def test_what_a_compiler_wrote(before: str, text: str, generated: bool) -> None:
    assert one(text, before).generated is generated


FILES = '.file 1 "/home/me/k.cu", 17, 99\n.file 2 "lib/h.h"\n'


def place(lines: str, files: str = FILES) -> Location | None:
    return one(f"{lines}\nop;", after=files).location


def test_where_an_instruction_comes_from() -> None:
    k = Location("k.cu", 41, None, "", 3, "/home/me/k.cu")
    assert place("") is None and place(".loc 1 41 3") == k
    assert place(".loc 1 41 3\n.loc 2 7 5") == Location("h.h", 7, None, "", 5, "lib/h.h")
    inside = Location("h.h", 7, k, "", 5, "lib/h.h")
    assert place(".loc 2 7 5, function_name $L, inlined_at 1 41 3") == inside
    assert place(".loc 1 41 3\n.loc 2 7 5, inlined_at 1 41 3") == inside
    assert place(".loc 3 41 3") == Location("?", 41, None, "", 3, "?")
    assert place(".loc 1 41 3\n.loc 1 0 0") is None, "of no one line"
    assert place(".loc 1 0 0, function_name $L, inlined_at 1 41 3") == k


def test_a_call_within_a_call_is_remembered() -> None:
    found = place(".loc 2 7 5, inlined_at 1 41 3\n.loc 2 9 1, inlined_at 2 7 5")
    assert found is not None and found.inlined is not None
    assert (found.line, found.inlined.line) == (9, 7)
    assert found.inlined.inlined is not None and found.inlined.inlined.line == 41


def test_a_function_begins_without_a_place() -> None:
    text = f"{HEAD}.loc 1 7 3\n.visible .entry k()\n{{\nret;\n}}\n{FILES}"
    assert read(text).functions["k"].body[0].location is None  # type: ignore[union-attr]


NAMES = """.section .debug_str
{
$L__info_string0:
.b8 95,90,52,119,97,105,116,105,0
.b8 65,66
$L__info_string1:
.b8 67,256,68
}
"""


@pytest.mark.parametrize(("label", "name"), [
    ("$L__info_string0", "wait"), ("$L__info_string0 + 9", "ABC"), ("$L__info_string0+10", "BC"),
    ("$L__info_string1", "C"), ("$L__info_string1+2", "D"), ("$L__info_string2", ""),
])  # fmt: skip
def test_names_of_inlined_functions(label: str, name: str) -> None:
    """Bytes up to the next zero; only the lowest eight bits of a number count."""
    found = place(f".loc 2 7 5, function_name {label}, inlined_at 1 41 3", FILES + NAMES)
    assert found is not None and found.function == name


def test_an_empty_name_and_one_in_a_namespace() -> None:
    names = ".section .debug_str\n{\n$L0:\n.b8 0,65\n$L1:\n.b8 95,90,78,49,97,49,98,69,118,0\n}\n"
    for label, name in (("$L0", ""), ("$L0+1", "A_ZN1a1bEv"), ("$L1", "b")):
        found = place(f".loc 2 7 5, function_name {label}, inlined_at 1 41 3", FILES + names)
        assert found is not None and found.function == name


@pytest.mark.parametrize(("name", "file"), [
    ("a.cu", "a.cu"), (r"dir/\303\251.cu", "é.cu"), (r"C:\\a.cu", "C:\\a.cu"),
    (r"\351.cu", "é.cu"),
])  # fmt: skip
def test_names_of_files(name: str, file: str) -> None:
    """Compilers write what is not ASCII as octal numbers of bytes, of UTF-8 most often."""
    found = place(".loc 1 7 3", f'.file 1 "{name}"\n')
    assert found is not None and found.file == file


@pytest.mark.parametrize(("text", "line", "said"), [
    (".file", 4, "expected an integer but found 'the end of the text'; the text seems to be cut "
     "short"),
    (".file 1", 4, "expected a file name in quotes; the text seems to be cut short"),
    (".file 1 name", 4, "expected a file name in quotes"),
    ('.file 1 "a", x', 4, "expected an integer but found 'x'"),
    (".loc 1 2 x", 4, "expected an integer but found 'x'"),
    (".loc 1 2 3, 4", 4, "expected a name but found '4'"),
    (".section\n.debug_str", 4, "this .section has no body"),
    (".section .debug_str\n{ { }", 4, "this .section never ends"),
])  # fmt: skip
def test_directives_that_are_cut_short(text: str, line: int, said: str) -> None:
    with pytest.raises(PtxError) as refused:
        read(HEAD + text)
    assert (refused.value.line, str(refused.value)) == (line, f"PTX line {line}: {said}")


def test_a_section_of_debugging_information_is_passed_over() -> None:
    text = ".section .debug_abbrev\n{\n.b8 1\n{ .b8 2 }\n}\n.global .b32 x;\n"
    assert set(read(HEAD + text).variables) == {"x"}
