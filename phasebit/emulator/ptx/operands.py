"""Do an instruction's operands have the shape it needs?  Asked once, before translation.

The table says how many operands an instruction takes; this module looks at what
they are, so that later stages need not.  What one family alone needs it checks itself, by a
function that it registers (``Traits.check``).

Source: PTX ISA 6.4 (operands), 9.7.12 (control flow).
"""

from __future__ import annotations

from phasebit.emulator.errors import PtxError
from phasebit.emulator.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.emulator.ptx.table import Selected
from phasebit.emulator.ptx.types import SIZE


def misfit(instruction: Instruction | None, why: str) -> PtxError:
    """The error for operands that an instruction cannot take."""
    if instruction is None:
        return PtxError(why)
    source = str(instruction.location) if instruction.location else None
    return PtxError(f"{why}: {instruction.text}", instruction.line, source)


def check(instruction: Instruction, chosen: Selected) -> None:
    """Raise :class:`PtxError` for operands of the wrong kind."""
    operands = instruction.operands
    for operand in operands:
        _address_base(instruction, operand)
    if chosen.entry.traits.check is not None:
        chosen.entry.traits.check(instruction, chosen)
    for operand in operands:
        for item in items_of(operand):
            if isinstance(item, Immediate) and _infinite(item) and not _floats(chosen):
                raise misfit(instruction, "an integer instruction cannot take infinity")


def check_control(instruction: Instruction, labels: dict[str, int]) -> None:
    """``bra`` needs a label, ``call`` a function."""
    operands = [o for o in instruction.operands if not isinstance(o, Tuple)]
    if instruction.mnemonic == "bra":
        target = operands[0] if len(instruction.operands) == 1 else None
        if not isinstance(target, Symbol) or target.name not in labels:
            raise misfit(instruction, "bra needs one label of its function")
    elif instruction.mnemonic == "call" and not (
        operands and isinstance(operands[0], Symbol | Register)
    ):
        raise misfit(instruction, "call needs the name of a function")


def _address_base(instruction: Instruction, operand: Operand) -> None:
    if not isinstance(operand, Address):
        return
    base = operand.base
    if not -(1 << 63) <= operand.offset < 1 << 63:
        raise misfit(instruction, "an offset has at most 64 bits")
    if not isinstance(base, Register | Symbol | Immediate):
        raise misfit(instruction, "an address begins with a register, a variable or a number")
    if isinstance(base, Register) and (base.type == "pred" or SIZE[base.type] not in (4, 8)):
        raise misfit(instruction, f"an address has 32 or 64 bits, and {base.name} has not")
    if isinstance(base, Immediate) and not isinstance(base.value, int):
        raise misfit(instruction, "an address is an integer")


def items_of(operand: Operand) -> tuple[Operand, ...]:
    """The registers in braces, or the one operand."""
    return operand.items if isinstance(operand, Vector) else (operand,)


def _infinite(immediate: Immediate) -> bool:
    value = immediate.value
    return isinstance(value, float) and immediate.bits is None and value - value != 0


def _floats(chosen: Selected) -> bool:
    return any("f" in kind for kind in chosen.types)
