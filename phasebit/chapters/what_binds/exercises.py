"""Checks of *Attention: what binds*; those with kernels and their order stand beside these."""

from __future__ import annotations

import random
import re
import statistics
from collections.abc import Callable, Iterator, Sequence

from phasebit import measure
from phasebit.exercises.cases import Case, agree
from phasebit.exercises.judge import judged, shown

RECORD = "attention_waits"
CURVES = {
    "the third kernel's groups": ("overlapped", "all groups"),
    "the third kernel's producer": ("overlapped", "the producer"),
    "kernel f's groups": ("dynamic", "all groups"),
    "kernel f's producer": ("dynamic", "the producer"),
}
"""Who waits -> the kernel of the record, and what it calls them."""


def _fits(waits: Sequence[float], longer: Sequence[float]) -> int:
    def off(room: int) -> float:
        return sum((max(0, wait - room) - more) ** 2
                   for wait, more in zip(waits, longer, strict=True))  # fmt: skip

    return min(range(int(max(waits)) + 1), key=off)


def curve(kernel: str, who: str) -> tuple[list[int], list[int]]:
    """How much longer each wait of the record lasts than none, and a pass is with it; cycles."""
    (found,) = [each for each in measure.read(RECORD)["slack"]
                if (each["kernel"], each["d"], each["causal"]) == (kernel, 128, False)]  # fmt: skip
    means = [
        statistics.mean(statistics.median(group) for group in zip(*run["pass"], strict=True))
        for run in found["runs"] if run["who"] == who
    ]  # fmt: skip
    return ([round(each - found["lasts"][0]) for each in found["lasts"]],
            [round(each - means[0]) for each in means])  # fmt: skip


@judged
def room(answer: Callable[[list[int], list[int]], int]) -> str:
    """``answer(waits, longer)``: the whole number r for which max(0, wait - r) fits best.

    Least squares; made-up loops, then the record's.
    """
    draw = random.Random(195)

    def cases() -> Iterator[Case]:
        for _ in range(40):
            waits = [0, *sorted(draw.sample(range(20, 1400), draw.randint(2, 8)))]
            hidden, blur = draw.choice([0, draw.randint(0, 1200)]), draw.choice([0, 5, 40])
            longer = [round(max(0, wait - hidden) + draw.uniform(-blur, blur)) for wait in waits]
            yield (waits, longer), _fits(waits, longer)
        for kernel, who in CURVES.values():
            given = curve(kernel, who)
            yield given, _fits(*given)

    def words(waits: list[int], longer: list[int]) -> str:
        return f"waits of {waits} that make a pass longer by {longer}"

    agree(answer, cases(), words, "loops")
    said = (f"{name} {answer(*curve(*which))}" for name, which in CURVES.items())
    return f"44 loops; in the record {', '.join(said)}"


_SCORES, _OUTPUT = "WARPGROUP.DEPBAR.LE gsb0, 0x1", "WARPGROUP.DEPBAR.LE gsb0, 0x0"
_EX2 = "MUFU.EX2"


def _stand(code: Sequence[str]) -> tuple[int, int]:
    scores = code.index(_SCORES)
    output = code.index(_OUTPUT, scores)
    last = next(i for i in range(output, len(code)) if code[i].startswith("HGMMA"))
    return code[scores:output].count(_EX2), code[output:last].count(_EX2)


def recorded_code(kernel: str, d: int) -> list[str]:
    """The names of a kernel's instructions, from the samples of the record."""
    (found,) = [each["instructions"] for each in measure.read(RECORD)["samples"]
                if (each["kernel"], each["d"]) == (kernel, d)]  # fmt: skip
    return [_instruction(each) for each in found]


def _instruction(sampled: str) -> str:
    name, _, rest = sampled.partition(" ")
    depth = re.match(r"0x\d", rest)
    return f"{name} gsb0, {depth[0]}" if "DEPBAR" in name and depth else name


@judged
def stand(answer: Callable[[list[str]], tuple[int, int]]) -> str:
    """``answer(code)``: exponentials of a pass before the wait for the output, and behind it.

    Made-up code, then that of the record's kernels.
    """
    draw = random.Random(196)

    def made_up(most: int) -> list[str]:
        def some(ex2: int) -> list[str]:
            others = ["FMNMX", "FFMA", "FADD", "SHFL.BFLY", "MUFU.RCP", "F2FP.BF16.F32.PACK_AB"]
            lines = [_EX2] * ex2 + draw.choices(others, k=draw.randint(0, most))
            draw.shuffle(lines)
            return lines

        products = ["HGMMA.64x128x16.F32.BF16"] * draw.randint(1, 1 + most // 3)
        first, *pair, last = (draw.randint(0, most) for _ in range(4))
        return [*products, _OUTPUT, *some(first), *products, *products, _SCORES, *some(pair[0]),
                _OUTPUT, *some(pair[1]), *products, _OUTPUT, *some(last)]  # fmt: skip

    def cases() -> Iterator[Case]:
        for i in range(40):  # the smallest first, to be read where an answer is wrong
            code = made_up(1 + i // 4)
            yield (code,), _stand(code)
        for each in measure.read(RECORD)["samples"]:
            code = recorded_code(each["kernel"], each["d"])
            yield (code,), _stand(code)

    def words(code: list[str]) -> str:
        return f"{len(code)} instructions, {shown(', '.join(code), 340)},"

    return agree(answer, cases(), words, "kernels")
