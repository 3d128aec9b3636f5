"""Do an instruction's operands have the shape it needs?  Asked once, before translation.

The table says how many operands an instruction takes; this module looks at what
they are, so that later stages need not.

Source: PTX ISA 6.4 (operands), 9.7.9 (data movement), 9.7.12 (control flow).
"""

from __future__ import annotations

from phasebit.emulator.errors import PtxError
from phasebit.emulator.syntax import (
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    Symbol,
    Tuple,
    Vector,
)
from phasebit.emulator.table import Selected
from phasebit.emulator.types import SIZE

MEMORY_TYPES = frozenset(
    {"b8", "u8", "s8", "b16", "u16", "s16", "f16", "bf16", "b32", "u32", "s32", "f32", "f16x2",
     "bf16x2", "b64", "u64", "s64", "f64", "b128"}
)  # fmt: skip


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
    mnemonic = instruction.mnemonic
    if chosen.entry.accesses:
        _access(instruction, chosen)
    elif mnemonic == "mov" and len(operands) != 2:
        raise misfit(instruction, "mov needs a result and a source")
    elif mnemonic == "mma" and len(chosen.types) not in (4, 5):
        raise misfit(instruction, "mma names the types of D, A, B and C")
    elif "vector" in chosen.options and mnemonic in ("atom", "red"):
        vectors = [o for o in operands if isinstance(o, Vector)]
        if any(len(vector.items) != chosen.options["vector"] for vector in vectors):
            raise misfit(instruction, f"{mnemonic} needs {chosen.options['vector']} registers")
    elif mnemonic == "wgmma" and "mma_async" in instruction.modifiers:
        _warp_group(instruction, chosen)
    elif mnemonic in ("ldmatrix", "stmatrix"):
        tiles = next((int(m[1:]) for m in instruction.modifiers if m in ("x1", "x2", "x4")), 1)
        tiles *= 2 if "m16n16" in instruction.modifiers else 1
        matrix = operands[0 if mnemonic == "ldmatrix" else 1]
        if len(_items(matrix)) != tiles:
            raise misfit(instruction, f"{mnemonic} of this shape needs {tiles} registers")
    for operand in operands:
        for item in _items(operand):
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


def _access(instruction: Instruction, chosen: Selected) -> None:
    operands, opcode = instruction.operands, instruction.mnemonic
    policy = "L2::cache_hint" in instruction.modifiers
    if len(operands) != 2 + policy:
        raise misfit(instruction, f"{opcode} needs an address and a value")
    value, address = operands[:2] if opcode != "st" else (operands[1], operands[0])
    if not isinstance(address, Address):
        raise misfit(instruction, f"{opcode} needs an address in brackets")
    if not chosen.types or chosen.types[0] not in MEMORY_TYPES:
        raise misfit(instruction, f"{opcode} needs the type of what memory holds")
    length = next((int(m[1:]) for m in instruction.modifiers if m in ("v2", "v4", "v8")), 1)
    if chosen.types[0] == "b128" and (length > 1 or chosen.options.get("space") == "param"):
        raise misfit(instruction, f"{opcode} of 128 bits takes one register, and no parameter")
    items = _items(value)
    # Triton puts braces around a single register too, and ptxas takes them
    if len(items) != length or (length > 1 and not isinstance(value, Vector)):
        raise misfit(instruction, f"{opcode} of {length} needs as many registers")
    if any(isinstance(item, Vector | Address | Tuple) for item in items):
        raise misfit(instruction, f"{opcode} needs registers or numbers")


def _warp_group(instruction: Instruction, chosen: Selected) -> None:
    """``wgmma.mma_async`` (PTX ISA 9.7.15.2, 9.7.15.3, 9.7.15.5.2)."""
    if len(chosen.types) != 3 or "shape" not in chosen.options:
        raise misfit(instruction, "wgmma.mma_async names a shape and the types of D, A and B")
    of_d, of_a, of_b = chosen.types
    n, k = chosen.options["shape"]
    if k * SIZE[of_a] != 32:
        raise misfit(instruction, f"wgmma of {of_a} has a k of {32 // SIZE[of_a]}, not {k}")
    if of_d == "s32" and n > 32 and n % 16:
        raise misfit(instruction, "wgmma of integers has an n of 8, 24 or a multiple of 16")
    if of_a != of_b and {of_a, of_b} not in ({"e4m3", "e5m2"}, {"s8", "u8"}):
        raise misfit(instruction, f"wgmma cannot multiply {of_a} by {of_b}")
    if of_d == "f16" and of_a in ("bf16", "tf32"):
        raise misfit(instruction, f"wgmma of {of_a} has a D of f32")
    d, a = instruction.operands[:2]
    count = n // (4 if of_d == "f16" else 2)
    if len(_items(d)) != count:
        raise misfit(instruction, f"D of {of_d} with n = {n} is {count} registers")
    if isinstance(a, Vector) and len(a.items) != 4:
        raise misfit(instruction, "A in registers is 4 of them")
    numbers = 0 if of_d == "s32" else 2
    if SIZE[of_a] == 2 and of_d != "s32":
        numbers += 1 if isinstance(a, Vector) else 2
    if len(instruction.operands) != 4 + numbers:
        raise misfit(
            instruction, f"this wgmma takes {numbers} numbers (signs, transposes) after scale-d"
        )
    for place, operand in enumerate(instruction.operands[4:]):
        allowed = (1, -1) if place < 2 else (0, 1)
        if not isinstance(operand, Immediate) or operand.value not in allowed:
            raise misfit(instruction, f"operand {5 + place} of wgmma is one of {allowed}")


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


def _items(operand: Operand) -> tuple[Operand, ...]:
    return operand.items if isinstance(operand, Vector) else (operand,)


def _infinite(immediate: Immediate) -> bool:
    value = immediate.value
    return isinstance(value, float) and immediate.bits is None and value - value != 0


def _floats(chosen: Selected) -> bool:
    return any("f" in kind for kind in chosen.types)
