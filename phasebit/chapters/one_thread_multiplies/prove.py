"""Launches of *One thread multiplies* to compare with a GPU's, bit by bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from phasebit import files
from phasebit.chapters.one_thread_multiplies import described
from phasebit.launching.devices import Device
from phasebit.launching.two_devices import Case

KINDS = {
    "tf32": ("tf32", "tf32", "f32"), "e4m3": ("f8f6f4", "e4m3", "f32"),
    "e5m2": ("f8f6f4", "e5m2", "f16"), "e2m3": ("f8f6f4", "e2m3", "f32"),
    "e2m1": ("f8f6f4", "e2m1", "f16"), "s8": ("i8", "s8", "s32"), "u8": ("i8", "u8", "s32"),
}  # fmt: skip
"""Type of A and B -> the instruction's kind, the type, that of the sum."""
TYPES = ("f16", "bf16")
SUMS = ("f32", "f16")


def cases() -> list[Case]:
    """One product after another into the same sum: types, majors, signs, widths, both sums."""
    text = files.kernel("one_thread_multiplies/described")
    rows = [
        Case(f"rows of a pair, M = {high}", files.kernel("one_thread_multiplies/pair_rows"),
             "sm_100a", 0.5, _rows(high))
        for high in (256, 128)
    ]  # fmt: skip
    kinds = [
        Case(f"{of} into {total}", f'#define KIND "{kind}"\n' + text, "sm_100a", 0.5, _kind(of),
             family=kind != "i8")
        for of, (kind, _, total) in KINDS.items()
    ]  # fmt: skip
    return rows + kinds + [
        Case(f"{kind} into {total}, N = {n}, majors and signs {bits:04b}", text, "sm_100a", 0.5,
             _launch(kind, total, n, bits))
        for kind in TYPES for total in SUMS if (kind, total) != ("bf16", "f16")
        for n in (32, 96) for bits in (0b0000, 0b0111, 0b1010)
    ]  # fmt: skip


def _rows(high: int) -> Callable[[Device], Mapping[str, Any]]:
    return lambda device: {"row and column": described.pair_rows(high, device=device)[1]}


def _kind(of: str) -> Callable[[Device], Mapping[str, Any]]:
    def launch(device: Device) -> Mapping[str, Any]:
        import numpy as np

        from phasebit.emulator import instruction_descriptors

        kind, _, total = KINDS[of]
        text = f'#define KIND "{kind}"\n' + files.kernel("one_thread_multiplies/described")
        draw, depth = np.random.default_rng(len(of)), instruction_descriptors.DEPTH[kind]

        def numbers(rows: int) -> Any:
            if kind == "i8":
                return draw.integers(*((0, 256) if of == "u8" else (-128, 128)), (rows, depth))
            return draw.standard_normal((rows, depth))

        bits = instruction_descriptors.encode(kind, 128, 64, of, of, total)
        out, _ = described.product(
            described.tile(numbers(128), of), described.tile(numbers(64), of), bits, times=3,
            text=text, device=device,
        )  # fmt: skip
        return {"the sum": out}

    return launch


def _launch(kind: str, total: str, n: int, bits: int) -> Callable[[Device], Mapping[str, Any]]:
    def launch(device: Device) -> Mapping[str, Any]:
        import numpy as np

        from phasebit.emulator import instruction_descriptors

        draw = np.random.default_rng(n + bits)
        instruction = instruction_descriptors.encode("f16", 128, n, kind, kind, total)
        a, b = (
            described.tile(draw.standard_normal((rows, 16)), kind, mn_major=bool(bits >> i & 1))
            for rows, i in ((128, 2), (128, 3))
        )
        out, _ = described.product(
            a, b, instruction | bits << 13, times=3, columns=n, device=device
        )
        return {"the sum": out}

    return launch
