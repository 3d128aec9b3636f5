"""What PTX declares: modules, functions, variables, registers, labels and their scopes."""

from __future__ import annotations

from typing import Any

import pytest

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.reader import read
from phasebit.emulator.ptx.syntax import (
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Register,
    Symbol,
    Variable,
)

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def module(text: str) -> Module:
    return read(HEAD + text)


def body(text: str) -> Function:
    return module(f".visible .entry k()\n{{\n{text}\n}}\n").functions["k"]


def variable(text: str) -> Variable:
    (found,) = module(f"{text}\n").variables.values()
    return found


def refused(text: str) -> tuple[int | None, str]:
    with pytest.raises(PtxError) as caught:
        read(text)
    return caught.value.line, str(caught.value).partition(": ")[2]


def test_a_module_of_directives() -> None:
    text = '.version 8.3\n.target sm_75, debug, texmode_independent\n.pragma "nounroll";\n'
    found = read(text + '.alias f, g;\n.address_size 64\n.file 1 "a.cu", 1, 2\n')
    assert (found.version, found.target, found.functions, found.variables) == (
        "8.3", "sm_75", {}, {},
    )  # fmt: skip


ENTRY = HEAD + ".visible .entry k()\n{\n"
WRONG = [
    (".target sm_90a\n", 1, "PTX begins with .version; is this a PTX file?"),
    (".version 9.0\n.address_size 64\n", 3,
     "the module has no .target directive; the text seems to be cut short"),
    (HEAD + "\nnonsense\n", 5, "'nonsense' cannot stand at the top level of a module"),
    (HEAD + "\n.reg .b32 x;", 5, "'.reg' cannot stand at the top level of a module"),
    (".version 9.0\n.target\ngfx942\n", 3,
     "'gfx942' is not a target: compile with nvcc -arch=sm_90a"),
    (".version 9.0\n.target sm_72\n", 2, "the emulator knows sm_75 and later: compile with "
     "-arch=sm_75 or newer instead of sm_72"),
    (".version 9.0\n.target sm_90a\n.address_size\n32\n", 3,
     "only 64-bit addresses work: compile with nvcc -m64"),
    (HEAD + '.pragma "x"\n', 5, ".pragma never ends; close it with ';'; the text seems to be cut "
     "short"),
    (HEAD + ".visible .b32 x;", 4, "expected a declaration but found '.b32'"),
    (HEAD + ".visible\nx;", 5, "expected a declaration but found 'x'"),
    (HEAD + ".func f() { ret; }\n.func\nf() { ret; }", 6, "f is defined twice"),
    (HEAD + ".func f()\n[", 5, "expected the body of f but found '['"),
    (HEAD + ".entry k()\n.frob 1 { }", 5, "unknown function directive '.frob'"),
    (HEAD + ".func f(\n.reg .b32 a) { }", 5,
     "register parameters belong to an old ABI that is not supported"),
    (HEAD + ".func f(\n.b32 a) { }", 5, "expected .param but found '.b32'"),
    (HEAD + ".func f(.param .b32 a\n.param .b32 b) { }", 5, "expected ',' but found '.param'"),
    (ENTRY + "5;\n}", 6, "'5' cannot begin a statement"),
    (ENTRY + ".entry j() { }\n}", 6, "'.entry' cannot begin a statement"),
    (ENTRY + ".pragma", 6, ".pragma never ends; close it with ';'; the text seems to be cut short"),
    (ENTRY + "{ ret;\n}\n", 8,
     "the block opened on line 5 is never closed; the text seems to be cut short"),
    (ENTRY + "{\n{ ret;\n}\n", 9,
     "the block opened on line 6 is never closed; the text seems to be cut short"),
    (ENTRY + ".reg\n.b33 x;\n}", 7, "unknown register type '.b33'"),
    (ENTRY + ".reg\nx;\n}", 7, "a register declaration without a type"),
    (ENTRY + ".reg .b32 a<2;\n}", 6, "expected '>' but found ';'"),
    (ENTRY + ".reg .b32 a b;\n}", 6, "expected ';' but found 'b'"),
    (ENTRY + ".shared .b32 a b;\n}", 6, "expected ';' but found 'b'"),
    (ENTRY + "T: .branchtargets A B;\n}", 6, "expected ';' but found 'B'"),
    (ENTRY + "P: .callprototype _", 6,
     ".callprototype never ends; close it with ';'; the text seems to be cut short"),
    (HEAD + ".global\n.align 3 .b32 x;", 5, "an alignment is a power of two, and 3 is none"),
    (HEAD + ".global .align 131072 .b32 x;", 4,
     "an alignment is a power of two, and 131072 is none"),
    (HEAD + ".global .align 0 .b32 x;", 4, "an alignment is a power of two, and 0 is none"),
    (HEAD + ".global\n.frob .b32 x;", 5, "unknown word '.frob' in a variable declaration"),
    (HEAD + ".global\n.texref x;", 5, ".texref variables are not supported"),
    (HEAD + ".global\n.surfref x;", 5, ".surfref variables are not supported"),
    (HEAD + ".global .samplerref x;", 4, ".samplerref variables are not supported"),
    (HEAD + ".global\nx;", 5, "a variable declaration without a type"),
    (HEAD + ".global .attribute(.managed", 4,
     "unclosed '('; the text seems to be cut short"),
    (HEAD + ".global .pred p;", 4, "no memory holds a .pred: p"),
    (HEAD + ".global .pred\np[7];", 5, "no memory holds 7 .pred: p"),
    (HEAD + f".global .b8 x[{(1 << 32) + 1}];", 4, "no memory holds 4294967297 .b8: x"),
    (HEAD + ".global .b8 x[65536][65537];", 4, "no memory holds 4295032832 .b8: x"),
    (HEAD + ".global .b8 x[-1];", 4, "no memory holds -1 .b8: x"),
    (HEAD + ".global .b8 x[2;", 4, "expected ']' but found ';'"),
    (HEAD + ".global .b8 x[2] = {1 2};", 4, "expected ',' but found '2'"),
    (HEAD + ".global .b64 x = generic(y;", 4, "expected ')' but found ';'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WRONG)
def test_what_cannot_be_read_is_said_with_its_line(text: str, line: int, words: str) -> None:
    assert refused(text) == (line, words)


def test_functions() -> None:
    found = module(
        ".extern .func (.param .b32 r) f (.param .b64 a, .param .b8 b[3]);\n"
        ".weak .func g() { ret; }\n"
        ".visible .entry k\n()\n.maxntid 256, 2, 1\n.minnctapersm 3\n.noreturn\n"
        '.pragma "nounroll" { ret; }\n'
    ).functions
    f, g, k = found["f"], found["g"], found["k"]
    assert [(each.is_entry, each.has_body, each.weak) for each in (f, g, k)] == [
        (False, False, False), (False, True, True), (True, True, False),
    ]  # fmt: skip
    assert [each.line for each in (f, g, k)] == [4, 5, 6]
    assert [(each.name, each.size) for each in f.parameters] == [("a", 8), ("b", 3)]
    assert [(each.name, each.size) for each in f.results] == [("r", 4)] and not k.results
    assert k.directives == {"maxntid": (256, 2, 1), "minnctapersm": (3,), "noreturn": ()}


def test_a_definition_stays_when_a_declaration_follows() -> None:
    found = module(".func f();\n.func f() { ret; }\n.func f();\n").functions["f"]
    assert found.has_body and found.line == 5
    assert module(".func f();\n.func f();\n").functions["f"].line == 4


def test_of_a_variable_the_definition_counts() -> None:
    assert variable(".extern .global .b32 x;\n.global .b32 x = 4;").initial == [4]
    defined = variable(".global .b32 x = 4;\n.extern .global .b32 x;")
    assert defined.initial == [4] and not defined.extern and not defined.weak
    assert variable(".extern .global .b32 x;").extern
    assert variable(".weak .global .b32 x;").weak and variable(".common .global .b32 x;").weak


VARIABLES = [
    (".global .b32 x;", "b32", 4, 4, None, None),
    (".global .align 16 .b8 x[5];", "b8", 5, 16, 5, None),
    (".global .align 65536 .b8 x;", "b8", 1, 65536, None, None),
    (".global .align 1 .f32 x;", "f32", 4, 1, None, None),
    (".global .f64 x[2][3];", "f64", 48, 8, 6, None),
    (".global .v4 .f32 x[2];", "f32", 32, 16, 2, None),
    (".global .b8 x[];", "b8", 0, 1, 0, None),
    (".global .b16 x[] = {1, 2, 3};", "b16", 6, 2, 0, [1, 2, 3]),
    (".global .b16 x[4] = {1, {2, {}}};", "b16", 8, 2, 4, [1, 2]),
    (".global .b32 x = -0x10;", "b32", 4, 4, None, [-16]),
    (".global .f32 x = 0f3F800000;", "f32", 4, 4, None, [Immediate(1.0, 0x3F800000)]),
    (".global .b64 x[2] = {y+8, generic(y-4)};", "b64", 16, 8, 2, [Symbol("y", 8),
     Symbol("y", -4)]),
    (".const .attribute(.managed) .b32 x;", "b32", 4, 4, None, None),
    (f".global .b8 x[{1 << 32}];", "b8", 1 << 32, 1, 1 << 32, None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "kind", "size", "align", "elements", "initial"), VARIABLES)
def test_variables(
    text: str, kind: str, size: int, align: int, elements: int | None, initial: Any
) -> None:
    x = variable(text)
    assert (x.name, x.space) == ("x", text[1:].split()[0]) and not x.pointer and x.line == 4
    assert (x.type, x.size, x.align) == (kind, size, align)
    assert (x.elements, x.initial) == (elements, initial)


def test_several_variables_of_one_declaration() -> None:
    found = module(".global .align 8 .b16 a[3],\nb = 7, c;\n").variables.values()
    assert [(x.name, x.size, x.align, x.initial, x.line) for x in found] == [
        ("a", 6, 8, None, 4), ("b", 2, 8, [7], 5), ("c", 2, 8, None, 5),
    ]  # fmt: skip


def test_a_pointer_s_alignment_is_that_of_what_it_points_to() -> None:
    text = ".entry k(.param .u64 .ptr .global .align 16 p, .param .align 16 .u64 q) { ret; }\n"
    p, q = module(text).functions["k"].parameters
    assert (p.align, p.pointer, p.size, p.space) == (8, True, 8, "param")
    assert (q.align, q.pointer) == (16, False)


def registers(function: Function) -> list[tuple[str, str]]:
    return [(each.name, each.type) for each in function.registers]


def test_registers_are_made_when_they_are_used() -> None:
    found = body(".reg .b32 a, r<3>, c; .reg .pred %p<2>;\nop r2, r0, c, %p1;")
    assert registers(found) == [("a", "b32"), ("c", "b32"), ("r2", "b32"), ("r0", "b32"),
                                ("%p1", "pred")]  # fmt: skip
    assert [each.index for each in found.registers] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("name", ["%r3", "%r10", "%r", "%rx", "%q0"])
def test_registers_that_a_family_has_not(name: str) -> None:
    line, words = refused(ENTRY + f".reg .b32 %r<3>;\nop {name};\n}}")
    assert (line, words) == (7, f"register {name} is not declared")


def test_a_family_of_an_inner_scope_hides_the_outer_one_there_alone() -> None:
    found = body(".reg .b32 %r<4>; op %r1; { .reg .f32 %r<2>; op %r1, %r3; } op %r1; op %r3;")
    first, inner, last, third = (each.operands for each in found.body)  # type: ignore[union-attr]
    assert first == last and inner[0] is not first[0]
    assert inner[0].type == "f32" and inner[1].type == "b32"  # type: ignore[union-attr]
    assert inner[1] is third[0], "what the inner one has not is the outer one's"


def test_the_carry_flag_is_one_register_of_the_function() -> None:
    found = body(".reg .b32 %r<4>; { add.cc.u32 %r1, %r2, %r3; } addc.u32 %r1, %r2, %r3;")
    first, second = found.body
    assert isinstance(first, Instruction) and isinstance(second, Instruction)
    carry = second.operands[-1]
    assert isinstance(carry, Register) and (carry.name, carry.type) == ("CC.CF", "pred")
    assert first.operands[0].second is carry  # type: ignore[union-attr]
    assert len(second.operands) == 4 and len(first.operands) == 3


def names(function: Function) -> list[Any]:
    return [each.operands[0].name for each in function.body if isinstance(each, Instruction)]  # type: ignore[union-attr]


def test_a_variable_of_an_inner_scope_has_another_name_there() -> None:
    found = body(".local .b32 x; op x; { .local .b64 x; op x; { op x; } } { .local .b8 x; op x; }\n"
                 "{ op x; }")  # fmt: skip
    outer, inner, nested, other, last = names(found)
    assert outer == last == "x" and inner == nested and len({outer, inner, other}) == 3
    assert [(each.name, each.size) for each in found.variables] == [
        (outer, 4), (inner, 8), (other, 1),
    ]  # fmt: skip


def test_a_jump_goes_to_the_nearest_label_around_it() -> None:
    found = body("L: bra M; { L: bra L; bra M; { bra L; } } M: bra L;")
    labels = [each.name for each in found.body if isinstance(each, Label)]
    outer, inner, after = labels
    assert (outer, after) == ("L", "M") and inner not in ("L", "M")
    assert names(found) == ["M", inner, "M", inner, "L"]


def test_labels_of_other_scopes_are_not_there() -> None:
    assert refused(ENTRY + "{ L: ret; }\nbra L;\n}") == (7, "there is no label 'L' in k")
    assert refused(ENTRY + "L: ret;\nL: ret;\n}") == (7, "label L is defined twice")
    assert refused(ENTRY + "{ L: ret;\nL: ret; }\n}") == (7, "label L is defined twice")


def test_lists_of_labels_and_prototypes() -> None:
    found = body(
        ".reg .b32 %r<4>;\nT: .branchtargets A, B;\nU: .calltargets f;\n"
        "P: .callprototype (.param .b32 _) _ (.param .b32 _);\nbrx.idx %r1, T; A: ; B: ret;"
    )
    assert found.branch_tables == {"T": ("A", "B"), "U": ("f",)} and found.prototypes == {"P": 9}
    (jump, _) = (each for each in found.body if isinstance(each, Instruction))
    assert jump.operands[1] == Symbol("T")


def test_statements_that_are_no_instructions() -> None:
    found = body(
        ';\n.pragma "nounroll";\n.file 1 "a.cu"\n.loc 1 7 3\n.visible .shared .b32 x;\nret;'
    )
    assert [each.mnemonic for each in found.body if isinstance(each, Instruction)] == ["ret"]
    assert [each.name for each in found.variables] == ["x"]
