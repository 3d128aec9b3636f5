"""What a page prints of a bug: its kernel, what the emulator finds in it, why, and the repair."""

from __future__ import annotations

import textwrap

from phasebit import bugs

_WIDTH = 80


def show(name: str) -> None:
    """Print where a bug was found, and the kernel of the smallest program that has it."""
    for where in bugs.bug(name).where:
        print(textwrap.fill(where, _WIDTH, subsequent_indent="  "))
    print()
    kernel(name)


def kernel(name: str, *, helpers: bool = True) -> None:
    """Print the device functions of the broken program: all between headers and ``main``.

    Not ``helpers``: of a function with assembler stands only its head.
    """
    lines = bugs.bug(name).text("broken").splitlines()
    first = max(k for k, line in enumerate(lines) if line.startswith("#include")) + 2
    last = next(k for k, line in enumerate(lines) if line.startswith("int main")) - 1
    k = first
    while k < last:
        begin, line = k, lines[k]
        if not helpers and line.startswith("__device__") and line.endswith("{"):
            end = lines.index("}", k)
            if any("asm volatile" in inside for inside in lines[k:end]):
                line, k = f"{line} … }}", end
        print(f"{begin + 1:3}  {line}".rstrip())
        k += 1


def numbered(name: str, *, main: bool = True) -> str:
    """The whole broken program without its comments at the head, with the numbers of its lines.

    Not ``main``: what stands before it, with the same numbers.
    """
    code = bugs.bug(name).code
    lines = enumerate((code if main else code.partition("int main")[0].rstrip()).splitlines(), 1)
    return "\n".join(f"{number:3}  {line}".rstrip() for number, line in lines)


def find(name: str, *, callers: bool = False) -> bugs.Outcome:
    """Run a broken program on the emulator; print its result and what is found, by line.

    Where a line is in a function, ``callers`` prints the one that calls it.
    """
    which = 0 if callers else -1
    bug = bugs.bug(name)
    seen = bug.run()
    text = bug.text("broken").splitlines()
    print("result:", seen.result)
    said: list[object] = []
    for finding in seen.findings:
        numbers = sorted({place.calls[which].line for place in finding.places if place.calls})
        if (finding.rule, numbers) not in said:
            said.append((finding.rule, numbers))
            print(f"{finding.rule} ({finding.grade})")
            for number in numbers:
                print(f"{number:3}  {text[number - 1].strip()}")
    if not seen.findings:
        print("no finding")
    return seen


def explain(name: str) -> None:
    """Print what makes it a mistake, what a test of results sees, and the repair."""
    bug = bugs.bug(name)
    quoted = f"PTX ISA {bugs.ISA_VERSION}, {bug.section}"
    facts = {"documentation": bug.isa, quoted: bug.quote and f"\u201c{bug.quote}\u201d"}
    facts |= {"a test of results": bug.test, "hardware": bug.hardware}
    for what, words in facts.items():
        if words:
            print(textwrap.fill(f"{what}: {words}", _WIDTH, subsequent_indent="  "))
    print(f"repair: {bug.repair}\n{textwrap.indent(bug.repaired, '  ')}")
