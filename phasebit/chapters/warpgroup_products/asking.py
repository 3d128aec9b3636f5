"""What of a thread that asks for copies slows the products beside it: which of its instructions?

In :mod:`.beside_copies` bulk copies cost the products 2 per cent, boxes nothing, and looks at the
clock 4 to 7. The loops differ in more than the instruction that copies: where the compiler works
out the address of a bulk copy, and how many bytes are due by the clock, it multiplies 32-bit
numbers to a 64-bit one. Here bulk copies also get their addresses by addition, boxes come with
such a multiplication that they do not need, and without a swizzle; looks leave it out; and loops
without a look and without a copy do nothing but multiply or add.
"""

from __future__ import annotations

import re
import statistics
from typing import Any

from phasebit import measure, toolchain
from phasebit.chapters.warpgroup_products import beside_copies
from phasebit.edits import replace_each
from phasebit.instruments import programs

NAME = "warpgroup_asking"
COPIES = {
    "bulk": 0, "boxes": 1, "bulk, added": 2, "boxes, multiplied": 3, "boxes, no swizzle": 5,
}  # fmt: skip
"""How copies of 16 KiB are asked for, as fast as they come -> its number in the program."""
LOOPS = {
    "nothing": 0, "looks, multiplied": -2, "looks": -3, "multiplications": -4, "additions": -5,
}  # fmt: skip
"""What the thread does without copies -> its number in the program."""

_MANY = """using Each = std::vector<std::function<void(const Bench&, bool)>>;
template <int N, bool REGISTERS> void add(Each& runs) {
    auto one = [&](Way way, int speed) {
        runs.push_back([=](const Bench& x, bool ones) {
            Bench mine = x;
            mine.way = way, mine.speed = speed;
            run<N, REGISTERS, 2, 1>(mine, ones);
        });
    };
    for (int boxes : {0, 1, 2, 3, 5}) one({boxes, 16384, 1, 0}, FAST);
    for (int speed : {0, -2, -3, -4, -5}) one({1, 16384, 1, 0}, speed);
}
Each every() {
    Each runs;
    add<64, false>(runs);
    if (timing::emulated()) return runs;
    add<64, true>(runs), add<256, true>(runs);
    return runs;
}

"""
_ASK = """            if (way.boxes)
                ptx::cp_async_bulk_tensor_load(to, map, 0, row + s * (way.bytes / 128), &full[s]);
            else ptx::cp_async_bulk_load(to, source + s * way.bytes, way.bytes, &full[s]);
"""
_ASKS = """            if (way.boxes == 2) {
                ptx::cp_async_bulk_load(to, next, way.bytes, &full[s]);
                next += way.warps * way.bytes;
                if (s + way.warps >= slots) next -= LANDING;
            } else if (way.boxes) {
                if (way.boxes == 3) multiply(waste, row + 1);
                ptx::cp_async_bulk_tensor_load(to, map, 0, row + s * (way.bytes / 128), &full[s]);
            } else ptx::cp_async_bulk_load(to, source + s * way.bytes, way.bytes, &full[s]);
"""
_WAIT = """        if (pace > 0)
            while ((clock64() - begin) * pace < n * way.bytes) continue;
"""
_WAITS = """        if (pace > 0)
            while ((clock64() - begin) * pace < n * way.bytes) continue;
        else if (rate == -3) {  // as long, without a multiplication
            const long long until = clock64() + 341;
            while (clock64() < until) continue;
        } else if (rate == -4) {
            for (int i = 0; i < 16; ++i) multiply(waste, row + 1);
        } else if (rate == -5) {
            for (int i = 0; i < 16; ++i) add(waste, row + 1);
        }
"""
_WASTES = """// What no compiler may leave out: a product of 32 bits by 32, and an addition.
__device__ void multiply(long long& into, int by) {
    asm volatile("{ .reg .b32 low, high; mov.b64 {low, high}, %0;\\n"
                 "mad.wide.s32 %0, low, %1, %0; }" : "+l"(into) : "r"(by));
}
__device__ void add(long long& into, int more) {
    asm volatile("add.s64 %0, %0, %1;" : "+l"(into) : "l"((long long)more));
}

"""
_COPY = "// One thread of warp `warp`: its copies"
_EDITS = (
    (_ASK, _ASKS),
    (_WAIT, _WAITS),
    (_COPY, _WASTES + _COPY),
    ("    int s = warp, round = 0;\n",
     "    int s = warp, round = 0;\n    long long waste = 0;\n"
     "    const unsigned char* next = source + warp * way.bytes;\n"),
    ("        if (rate != DRY) {\n", "        if (rate >= FAST) {\n"),
    ("    if (rate != DRY)\n", "    if (rate >= FAST)\n"),
    ("counted[1] = rate == DRY ? 0 : n / way.warps * way.bytes;\n",
     "counted[1] = rate < FAST ? 0 : n / way.warps * way.bytes;\n"
     "    if (waste == 0x5bd1e995) counted[0] = 1;  // hardly ever\n"),
    ("(!wrong || speed == DRY)", "(!wrong || speed < FAST)"),
    ("way.boxes ? i ^ i / 128 % 8 * 16 : i",
     "way.boxes == 1 || way.boxes == 3 ? i ^ i / 128 % 8 * 16 : i"),
    ("                      CU_TENSOR_MAP_SWIZZLE_128B);\n",
     "                      x.way.boxes == 5 ? CU_TENSOR_MAP_SWIZZLE_NONE\n"
     "                                       : CU_TENSOR_MAP_SWIZZLE_128B);\n"),
    ("x.speed && x.speed != DRY && ", "x.speed && x.speed >= FAST && "),
)  # fmt: skip


def text() -> str:
    """The program; raises ``ValueError`` where an edit does not fit."""
    given = beside_copies.text()
    begin = given.index("constexpr Way RING")
    many = given[begin : given.index("int main")]
    return replace_each(given, ((many, _MANY), *_EDITS), NAME)


def build() -> toolchain.Build:
    """Compiled for this machine's GPU."""
    return toolchain.build(text(), name=NAME)


def record() -> dict[str, Any]:
    """Measure on this machine's GPU.

    Raises :class:`toolchain.CudaError` when there is none, or when a sum or a copy is wrong.
    """
    facts = measure.facts()
    found = named(programs.output(build().program, "time"))
    for row in found:
        cycles, arrived = (statistics.median(row[what]) for what in ("cycles", "arrived"))
        print(f"⏱ N = {row['n']}, A in {row['a']}, {row['beside']}: {cycles:.2f} cycles, "
              f"{arrived:.1f} bytes a cycle")  # fmt: skip
    return {
        "benchmark": NAME,
        **facts,
        "protocol": {
            "cycles": "as in warpgroup_copies, 132 blocks: cycles of a multiprocessor for an "
            "instruction, of the median multiprocessor in each of 9 rounds, in a new random order; "
            "tiles of normal random bf16 numbers",
            "check": "a run on ones, whose sums are compared, goes before and does not count; in "
            "it what was copied is compared with its source, word by word",
            "copies": "16 KiB each, by one thread, as fast as they come, at most 128 KiB under "
            "way; added: the address of the source by addition; multiplied: with a "
            "multiplication of 32 bits by 32 to 64 before each; no swizzle: boxes laid out as "
            "bulk copies are",
            "loops": "one thread, and no copy: looks: at the clock, until as many cycles have "
            "passed as for 48 bytes a cycle, multiplied: what is due is worked out by a "
            "multiplication, else the clock is compared with a number; multiplications and "
            "additions: 16 of them between two looks at the barrier of the end",
            "arrived": "bytes of the copies over the cycles from their begin to the last one's "
            "end, of the median multiprocessor",
        },
        "rows": found,
    }


_ROW = re.compile(
    r"^⏱ N=(\d+) A=(\w+) blocks=\d+ boxes=(\d) bytes=\d+ warps=1 same=0 asked=(-?\d+)"
    r" (\S+) (\S+)$",
    re.MULTILINE,
)


def named(said: str) -> list[dict[str, Any]]:
    """What the program printed: for each kernel and each of COPIES and LOOPS its rounds."""
    copies, loops = ({number: name for name, number in of.items()} for of in (COPIES, LOOPS))
    found: dict[tuple[int, str, str], tuple[list[float], list[float]]] = {}
    for n, a, way, asked, cycles, arrived in _ROW.findall(said):
        beside = copies[int(way)] if asked == str(beside_copies.FAST) else loops[int(asked)]
        seen = found.setdefault((int(n), a, beside), ([], []))
        seen[0].append(float(cycles))
        seen[1].append(float(arrived))
    return [
        {"n": n, "a": a, "beside": beside, "cycles": cycles, "arrived": arrived}
        for (n, a, beside), (cycles, arrived) in sorted(found.items())
    ]
