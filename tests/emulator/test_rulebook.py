"""The table of rules: whatever is found breaks one of them, and each of them can be found."""

from __future__ import annotations

import ast
import functools
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from phasebit.__main__ import main
from phasebit.emulator import Defect, EmulatorError, Fault, Kernel, Module, errors, rulebook
from phasebit.emulator.errors import TooManyArrivals
from phasebit.emulator.findings import Finding, say
from phasebit.emulator.machine.scheduler import Machine
from phasebit.runtime.emulated import EmulatorBackend
from phasebit.runtime.mapped_memory import DeviceMemory
from phasebit.runtime.protocol import Op, Status
from phasebit.runtime.report import ForPeople
from phasebit.runtime.server import Device
from tests import planted_rules

ROOT = Path(__file__).parents[2]
RAISING = {"report": 0, "Finding": 0, "of_program": 1, "say": 1}
"""Who makes a finding -> which argument is the rule."""


def strings(node: ast.AST) -> Iterator[str]:
    """The names that an expression may give: a literal, or either side of a conditional."""
    if isinstance(node, ast.IfExp):
        yield from strings(node.body)
        yield from strings(node.orelse)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value


def named(tree: ast.AST) -> Iterator[str]:
    """Rules that a module raises by name: in a call, in a class of errors, in a variable."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            at = RAISING.get(name)
            for keyword in node.keywords:
                if keyword.arg == "rule":
                    yield from strings(keyword.value)
            if at is not None and len(node.args) > at and (name != "say" or at_self(node.func)):
                yield from strings(node.args[at])
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == "rule" for each in targets):
                yield from strings(node.value)


def at_self(function: ast.AST) -> bool:
    """Whether it is ``self.say(…)``, not the function that makes sentences."""
    return (
        isinstance(function, ast.Attribute)
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
    )


def modules() -> list[Path]:
    package = ROOT / "phasebit"
    return [*(package / "emulator").rglob("*.py"), *(package / "runtime").rglob("*.py")]


@functools.cache
def raised() -> set[str]:
    texts = (path.read_text(encoding="utf-8") for path in modules())
    return {name for text in texts for name in named(ast.parse(text))}


def test_what_is_raised_is_in_the_table() -> None:
    assert raised() - rulebook.RULES.keys() == set()


def test_what_is_in_the_table_is_raised() -> None:
    assert rulebook.RULES.keys() - raised() == set()


HEAD = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k()\n{\n"
BARRIER = ".shared .align 8 .b64 full; .reg .b64 %rd<3>;\nmbarrier.init.shared.b64 [full], 1;\n"


def kernel(body: str) -> Kernel:
    return Module(f"{HEAD}{body}\nret;\n}}\n")["k"]


def test_a_trap() -> None:
    with pytest.raises(Fault, match="trap executed"):
        kernel("trap;").launch()


def test_an_arrival_too_many() -> None:
    with pytest.raises(TooManyArrivals, match="the pending count lies between"):
        kernel(f"{BARRIER}mbarrier.arrive.shared.b64 %rd1, [full], 2;").launch()


def test_bytes_that_are_announced_and_never_come() -> None:
    body = (
        f"{BARRIER}mbarrier.arrive.expect_tx.shared.b64 %rd1, [full], 16;\n"
        ".reg .pred %p; .reg .b32 %r; .shared .align 16 .b8 box[16];\n"
        "mov.u32 %r, 0; mov.u64 %rd2, 0; setp.ne.u32 %p, %r, 0;\n"
        "@%p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[box], [%rd2], 16, [full];"
    )
    (finding,) = kernel(body).launch().findings
    assert finding.rule == "announced-bytes-missing" and "16 too many announced" in finding.message
    assert "the last to come" not in finding.message, "none has"


def test_a_fault_of_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "run", lambda self: [].pop())
    with pytest.raises(Defect, match="that is a defect of phasebit"):
        kernel("").launch()


def test_a_program_that_is_not_there_and_a_tensor_map_that_cannot_be(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "--quiet", "./not there"]) == 2
    memory = DeviceMemory(1 << 20)
    log = io.StringIO()
    device = Device(EmulatorBackend(), memory, 90, ForPeople(log))
    assert device.handle(Op.TENSOR_MAP, [0] * 26, b"").status == Status.INVALID_VALUE
    assert log.getvalue().startswith("phasebit: cuTensorMapEncodeTiled: ")
    memory.close()


def test_every_rule_is_planted_in_a_test() -> None:
    assert rulebook.RULES.keys() == planted_rules.PLANTED.keys()
    for test in planted_rules.PLANTED.values():
        file, *_, function = test.partition("[")[0].split("::")
        assert f"def {function}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_a_table_that_names_no_test_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planted_rules, "PLANTED", {"race": "a.py::f[x]", "trap": "b.py::g"})
    assert planted_rules.lost({"a.py::f[y]", "c.py::h"}) == ["a.py::f[x]"]
    assert planted_rules.planted_in("b.py::g") == {"trap"}
    with planted_rules.noted() as seen:
        Finding("race", say("it"))
        Fault("it")
    Finding("deadlock", say("not this"))
    assert seen == {"race", "invalid-operation"}


def test_a_rule_is_found_in_each_way_that_one_is_raised() -> None:
    text = (
        "self.findings.report('a' if x else 'b', say('{}', 'not this'), 1, 2)\n"
        "class Wrong(Fault):\n    rule: ClassVar[str] = 'c'\n"
        "self.say(text, 'd')\n"
        "def f():\n    rule = 'e'\n    of_program(text, 'f')\n    return Finding('g', text)\n"
    )
    assert set(named(ast.parse(text))) == set("abcdefg")


@pytest.mark.parametrize("rule", rulebook.RULES.values(), ids=rulebook.RULES)
def test_a_rule_says_what_it_is(rule: rulebook.Rule) -> None:
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", rule.name)
    assert rule.grade in rulebook.GRADES and rule.section
    assert rule.sentence[0].isupper() and rule.sentence.endswith(".")
    assert rule.sentence.count(".") == 1 + len(re.findall(r"\w\.\w|\s\.\w", rule.sentence))


def test_the_table_is_by_name() -> None:
    assert all(name == rule.name for name, rule in rulebook.RULES.items())


def test_a_finding_takes_kind_and_grade_from_its_rule() -> None:
    finding = Finding("bulk-in-flight-at-exit", say("it leaves"))
    assert (finding.kind, finding.grade) == ("async", rulebook.NO_PROMISE)
    assert str(finding) == "async: it leaves"
    assert Finding.from_json(finding.to_json()) == finding
    with pytest.raises(ValueError, match="'rase' is no rule"):
        Finding("rase", say("it"))


def test_every_error_is_a_finding_of_a_rule() -> None:
    kinds = [each for each in vars(errors).values()
             if isinstance(each, type) and issubclass(each, EmulatorError)]  # fmt: skip
    assert len(kinds) > 10 and Fault in kinds
    for each in kinds:
        assert each.rule in rulebook.RULES
        assert not issubclass(each, Fault) or rulebook.rule(each.rule).kind == "fault"


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["rule", *rulebook.RULES]
    assert main(["rules", "deadlock"]) == 0
    assert capsys.readouterr().out.startswith("deadlock (deadlock, can corrupt)\nEvery thread")
    assert main(["rules", "rase"]) == 2
    assert "'rase' is no rule: `python -m phasebit rules`" in capsys.readouterr().err
