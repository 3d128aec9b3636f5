"""CUDA programs by nvcc, for every target and also unoptimised, against what C says they give.

Each test runs one kernel of ``cuda/features.cu`` and compares with a reference in
Python; none may show a finding.  The optimiser changes the PTX beyond recognition
(-G keeps every variable in local memory and every address generic), never the result.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phasebit.emulator import Run
from phasebit.emulator.errors import Fault, InvalidFree, UseAfterFree
from phasebit.launching.launch import Module, compile
from tests.emulator import saved

CUDA = Path(__file__).with_name("cuda")
TARGETS = ("sm_75", "sm_80", "sm_90a", "sm_100a")
BUILDS = [(t, o) for t in TARGETS for o in ("-O3", "-G")]
SAVED = ("saved", "")


@pytest.fixture(
    scope="module", params=[SAVED, *(pytest.param(b, marks=pytest.mark.nvcc) for b in BUILDS)],
    ids="".join,
)  # fmt: skip
def features(request: pytest.FixtureRequest) -> Module:
    target, option = request.param
    if request.param == SAVED:
        return saved.module("features")
    return compile(CUDA / "features.cu", target, [option] if option == "-G" else [])


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def clean(run: Run) -> Run:
    assert not run.findings, "\n".join(map(str, run.findings))
    return run


def wrap32(x: int) -> int:
    return (x + (1 << 31)) % (1 << 32) - (1 << 31)


def c_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def c_rem(a: int, b: int) -> int:
    return a - b * c_div(a, b)


def test_integers(features: Module, rng: np.random.Generator) -> None:
    n = 256
    a = rng.integers(-(1 << 31), 1 << 31, n).astype(np.int32)
    b = rng.integers(-(1 << 62), 1 << 62, n)
    c = rng.integers(-(1 << 15), 1 << 15, n).astype(np.int16)
    out = np.zeros(n, np.int64)
    clean(features["integers"].launch(2, 128, [a, b, c, out]))

    def one(a: int, b: int, c: int) -> int:
        m32, m64 = (1 << 32) - 1, (1 << 64) - 1
        ua, ub = a & m32, b & m64
        x = a * b + c
        x ^= (a >> 3) << 7
        x += c_div(a, c | 1) + c_rem(b, 1001) - c_div(b, a | 1)
        x += bin(ua).count("1") + 32 - ua.bit_length() + bin(ub).count("1") + 64 - ub.bit_length()
        x += int(f"{ua:032b}"[::-1], 2)
        x += (ua & -ua).bit_length()
        x += (ua * 0x12345 >> 32) + (a * -77 >> 32) + (ub * 0x123456789ABCDEF >> 64)
        both = ua | (ub & m32) << 32
        perm = 0
        for k, s in enumerate((5, 1, 7, 3)):
            perm |= (both >> 8 * s & 255) << 8 * k
        x += perm
        shift = c & 31
        x += ((ub & m32) << 32 | ua) << shift >> 32 & m32
        x += (ua + (ub & m32)) & 0xFFFF | ((ua >> 16) + (ub >> 16 & 0xFFFF) & 0xFFFF) << 16
        return x

    # which of the 32-bit parts C adds as signed int is fixed by their declared types
    def typed(a: int, b: int, c: int) -> int:
        m32 = (1 << 32) - 1
        ua, ub = a & m32, b & (1 << 64) - 1
        x = (a * b + c) & (1 << 64) - 1
        x ^= ((a >> 3) << 7) & (1 << 64) - 1
        x += wrap32(c_div(a, c | 1)) + c_rem(b, 1001) - c_div(b, a | 1)
        first = bin(ua).count("1") + 32 - ua.bit_length() + bin(ub).count("1")
        first += 64 - ub.bit_length()
        x += (first + int(f"{ua:032b}"[::-1], 2) + (ua & -ua).bit_length()) & m32
        x += ((ua * 0x12345 >> 32) + (a * -77 >> 32)) % (1 << 32) + (ub * 0x123456789ABCDEF >> 64)
        both = ua | (ub & m32) << 32
        perm = sum((both >> 8 * s & 255) << 8 * k for k, s in enumerate((5, 1, 7, 3)))
        x += (perm + (((ub & m32) << 32 | ua) << (c & 31) >> 32 & m32)) & m32
        x += (ua + ub) & 0xFFFF | ((ua >> 16) + (ub >> 16) & 0xFFFF) << 16
        return x & (1 << 64) - 1

    want = [typed(*v) for v in zip(a.tolist(), b.tolist(), c.tolist(), strict=True)]
    assert out.view(np.uint64).tolist() == want


def test_struct_by_value_constants_and_a_global_variable(features: Module) -> None:
    line = np.zeros((), [("slope", "f4"), ("pad", "i4"), ("offset", "f8"), ("power", "i4", 3),
                         ("end", "i4")])  # fmt: skip
    line["slope"], line["offset"], line["power"] = 0.5, 10.25, (1, 20, 300)
    out = np.zeros(64, np.float32)
    before = int(features.variable("total").view(np.int32)[0])
    clean(features["by_value"].launch(1, 64, [line[()], out]))
    i = np.arange(64)
    want = 0.5 * i + 10.25 + np.array([1, 20, 300])[i % 3] + 0.5 ** (i & 3)
    assert np.array_equal(out, want.astype(np.float32))
    assert features.variable("total").view(np.int32)[0] == before + 1


def test_divergent_loops(features: Module, rng: np.random.Generator) -> None:
    start = rng.integers(1, 200, 192).astype(np.int32)
    steps = np.zeros(192, np.int32)
    clean(features["collatz"].launch(3, 64, [start, steps]))

    def count(n: int) -> int:
        k = 0
        while n != 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            k += 1
        return k

    assert steps.tolist() == [count(n) for n in start.tolist()]


def mix(a: int, b: int, kind: int) -> int:
    forms: list[Callable[[], int]] = [
        lambda: a + b, lambda: a - b, lambda: a * b, lambda: a & b, lambda: a | b, lambda: a ^ b,
        lambda: a << (b & 7), lambda: a >> (b & 7), lambda: a + 2 * b, lambda: min(a, b),
    ]  # fmt: skip
    return wrap32(forms[kind]() if kind < 10 else max(a, b))


def test_functions_switches_and_local_arrays(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(-1000, 1000, 96).astype(np.int32)
    out = np.zeros(96, np.int32)
    clean(features["functions"].launch(1, 96, [data, out]))
    for i in range(96):
        box = [int(data[(i + k) % 96]) for k in range(8)]
        total = 0
        for k in range(11):
            total = wrap32(total + mix(box[(i + k) & 7], box[(total + k) & 7], k))
        assert out[i] == total


def test_calls_through_pointers(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(-1000, 1000, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    clean(features["pointers"].launch(1, 64, [data, out]))
    i = np.arange(64)
    assert np.array_equal(out, np.where(i & 1, data - i, data + i))


def test_warp_collectives(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(0, 100, 96).astype(np.int32)
    out = np.zeros(96, np.int32)
    clean(features["warps"].launch(1, 96, [data, out]))
    want = []
    for warp in data.reshape(3, 32).tolist():
        odd = sum((x & 1) << lane for lane, x in enumerate(warp))
        flags = any(x > 90 for x in warp) | 2
        for lane, x in enumerate(warp):
            down = warp[lane + 3] if lane % 8 + 3 < 8 else x
            pick = warp[lane // 16 * 16 + lane * 7 % 16]
            same = sum(1 << other for other, y in enumerate(warp) if y & 3 == x & 3)
            value = sum(warp) + 3 * sum(warp[: lane + 1]) + odd + 5 * down + 7 * pick + same + flags
            want.append(wrap32(value))
    threads = np.arange(96)
    assert threads.size == len(want)
    assert out.tolist() == want


def test_collectives_of_some_lanes(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(0, 100, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    clean(features["half_warps"].launch(1, 64, [data, out]))
    for w, warp in enumerate(data.reshape(2, 32)):
        for lane in range(32):
            want = warp[1::2].sum() if lane % 2 else (warp[::2] > 50).sum()
            assert out[32 * w + lane] == want


def test_reduction_in_dynamic_shared_memory(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(-50, 50, 1000).astype(np.float32)
    out = np.zeros(4, np.float32)
    clean(features["reduce"].launch(4, 256, [data, out, 1000], shared=1024))
    padded = np.zeros(1024, np.float32)
    padded[:1000] = data
    assert np.array_equal(out, padded.reshape(4, 256).sum(axis=1))


def test_atomics(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(-1000, 1000, 512).astype(np.int32)
    bins, extremes, big = np.zeros(16, np.int32), np.zeros(6, np.int32), np.zeros(1, np.uint64)
    run = features["atomics"].launch(4, 128, [data, bins, extremes, big])
    # the first read of extremes[4] is a plain load beside atomics: that is a race
    assert all("extremes[4]" in str(h) or "ld." in str(h) or "ld" in str(h) for h in run.findings)
    assert np.array_equal(bins, np.bincount(data & 15, minlength=16))
    ored, xored = 0, 0
    for x in data.tolist():
        ored |= 1 << (x & 31)
        xored ^= x
    assert extremes.tolist() == [
        min(0, data.min()), max(0, data.max()), wrap32(ored), wrap32(xored), data.sum(), 512 % 100,
    ]  # fmt: skip
    assert big[0] == int(data.sum()) % (1 << 64)


def test_floats(features: Module, rng: np.random.Generator) -> None:
    a = rng.normal(0, 10, 128).astype(np.float32)
    b = rng.normal(0, 1000, 128)
    out, wide = np.zeros(128, np.float32), np.zeros(128)
    clean(features["floats"].launch(1, 128, [a, b, out, wide]))
    h = a.astype(np.float16).astype(np.float64)
    g = (h * h + 0.5).astype(np.float16).astype(np.float64)
    x = a.astype(np.float64)
    want = (np.sqrt(np.abs(x)) + x / 3 + x * x + 1 + np.floor(x) + np.rint(x) + g
            + np.minimum(x, 0.25) + np.trunc(x) + np.copysign(1.5, x) + x + 1e-4)  # fmt: skip
    assert np.allclose(out, want, rtol=1e-5, atol=1e-4)
    want = np.sqrt(np.abs(b)) + b / 7 + b * b + x + np.trunc(b)
    assert np.allclose(wide, want, rtol=1e-14)


@pytest.mark.parametrize("schedule", ["late", "random"])
def test_the_last_block(features: Module, rng: np.random.Generator, schedule: str) -> None:
    data = rng.integers(0, 100, 40 * 64).astype(np.int32)
    part, out = np.zeros(40, np.int32), np.zeros(1, np.int32)
    clean(features["last_block"].launch(40, 64, [data, part, out], schedule=schedule, seed=3))
    assert out[0] == data.sum()


def test_blocks_wait_for_later_blocks(features: Module) -> None:
    flag, out = np.zeros(1, np.int32), np.zeros(50, np.int32)
    clean(features["relay"].launch(50, 32, [flag, out]))
    assert np.array_equal(out, np.arange(50) ** 2)


def test_cooperative_groups(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(0, 100, 64).astype(np.int32)
    out = np.zeros(64, np.int32)
    clean(features["groups"].launch(1, 64, [data, out]))
    tile = np.arange(64) // 8
    assert np.array_equal(out, data.reshape(8, 8).sum(axis=1)[tile] + tile)


def test_printf_and_assert(features: Module) -> None:
    run = features["speak"].launch(1, 32, [10])
    assert run.output == "thread 0 says  0.50 hi!\nthread 1 says  1.50 hi!\n"
    with pytest.raises(Fault, match=r"thread 3 of block 0: Assertion `.*too small"):
        features["speak"].launch(1, 32, [2])


def test_votes_at_a_barrier(features: Module, rng: np.random.Generator) -> None:
    data = rng.integers(0, 100, 128).astype(np.int32)
    out = np.zeros(128, np.int32)
    clean(features["votes"].launch(1, 128, [data, out]))
    assert (out == (data > 50).sum() * 4 + 1 + 2 * int((data > 98).any())).all()


def recursion(options: list[str] | None) -> Module:
    """As it was compiled once, or with these options."""
    if options is None:
        return saved.module("recursion")
    return compile(CUDA / "recursion.cu", "sm_90a", options)


HOW = [pytest.param(None, id="saved"), *(pytest.param(options, marks=pytest.mark.nvcc,
id=" ".join(options))
                                        for options in ([], ["-G"]))]  # fmt: skip
AS_IT_IS = pytest.param(["-Xcicc", "-O0"], marks=pytest.mark.nvcc, id="-O0")


@pytest.mark.parametrize("options", [*HOW, AS_IT_IS])
def test_recursion(options: list[str] | None) -> None:
    """Each call has a frame of its own, whose address may go down; also through pointers."""
    module = recursion(options)
    out = np.full((64, 5), -1, np.int32)
    clean(module["recursion"].launch(1, 64, [out]))
    fibonacci = [0, 1]
    while len(fibonacci) < 10:
        fibonacci.append(sum(fibonacci[-2:]))
    for t in range(64):
        n = t % 5
        area = sum(i * i for i in range(n + 1)) if t % 2 else n * n
        assert out[t].tolist() == [fibonacci[t % 10], 0, 1, t % 2 == 0, area]


def test_endless_recursion_is_a_stack_overflow() -> None:
    module = recursion(None)
    with pytest.raises(Fault, match=r"stack overflow: thread 0 of block 0 is \d+ calls deep"):
        module["endless"].launch(1, 32, [np.zeros(2, np.int32)])


def test_new_and_delete() -> None:
    """The heap belongs to the module: one kernel builds, the next reads and frees."""
    module = Module(saved.module("heap").ptx)
    heads, sums = np.zeros(64, np.uint64), np.zeros(64, np.int32)
    clean(module["build"].launch(1, 64, [heads, 5]))
    assert len(np.unique(heads)) == 64
    clean(module["sum_and_free"].launch(1, 64, [heads, sums]))
    assert sums.tolist() == [10, 15] * 32
    assert not module.memory.heap
    out = np.zeros(1, np.int32)
    module["too_much"].launch(1, 1, [out])
    assert out[0] == 1


@pytest.mark.parametrize(("size", "count"), [(1 << 20, 8), ((1 << 20) + 1, 7), (100_000, 83)])
def test_the_heap_has_an_end(size: int, count: int) -> None:
    """8 MB, cudaLimitMallocHeapSize; a piece is a multiple of 16 bytes."""
    module = Module(saved.module("heap").ptx)
    out = np.zeros(2, np.int32)
    clean(module["exhaust"].launch(1, 1, [out, size]))
    assert out.tolist() == [count, 1]


@pytest.mark.parametrize("twice", [0, 1])
def test_freed_memory_is_gone(twice: int) -> None:
    module = Module(saved.module("heap").ptx)
    with pytest.raises(InvalidFree if twice else UseAfterFree) as caught:
        module["free_twice"].launch(1, 1, [np.array([twice], np.int32)])
    text = str(caught.value)
    assert "0 bytes into memory from malloc (4 bytes), which was freed by all threads" in text
    line = 1 + (CUDA / "heap.cu").read_text(encoding="utf-8").split("    free(p);")[0].count("\n")
    assert f"heap.cu:{line})" in text


def test_an_object_of_another_kernel() -> None:
    """The table of virtual functions is all that leads to them."""
    module = Module(saved.module("heap").ptx)
    counter, out = np.zeros(1, np.uint64), np.zeros(2, np.int32)
    module["make"].launch(1, 1, [counter])
    clean(module["use"].launch(1, 1, [counter, out]))
    assert out.tolist() == [2, 4]


@pytest.mark.parametrize("options", HOW)
def test_a_call_through_a_pointer_has_its_own_frame(options: list[str] | None) -> None:
    out = np.full(32, 7, np.int32)
    module = recursion(options)
    clean(module["through_pointer"].launch(1, 32, [out]))
    assert out.tolist() == [2 * t if t % 2 else -t for t in range(32)]


@pytest.mark.parametrize("options", HOW)
def test_printf_in_a_recursion_prints_its_own_call(options: list[str] | None) -> None:
    out = np.zeros(2, np.int32)
    module = recursion(options)
    run = clean(module["talk"].launch(1, 2, [out]))
    lines = run.output.splitlines()
    for t in range(2):
        mine = [line for line in lines if line.endswith(f"thread {t}")]
        assert mine == [f"{n} of thread {t}" for n in range(3 + t)]
    assert out.tolist() == [2, 3]


@pytest.mark.parametrize("options", [[], ["-G"]], ids=" ".join)
def test_memory_of_the_stack_is_given_back_when_a_function_returns(options: list[str]) -> None:
    source = """
__device__ __noinline__ int squares(const int* x, int n) {
    int* own = (int*)alloca(64 * n);  // so that it would soon be too much
    int sum = 0;
    for (int i = 0; i < n; ++i) own[i] = x[i] * x[i];
    for (int i = n; i-- > 0;) sum += own[i];
    return sum;
}
__global__ void sums(int* out, int rounds) {
    const int n = 5 + threadIdx.x % 3;
    int* own = (int*)alloca(4 * n);
    for (int i = 0; i < n; ++i) own[i] = i + threadIdx.x;
    int sum = 0;
    for (int j = 0; j < rounds; ++j) sum += squares(own, 1 + j % n);
    for (int i = 0; i < n; ++i) sum += own[i];
    out[threadIdx.x] = sum;
}"""
    out, rounds = np.zeros(64, np.int32), 300
    clean(compile(source, "sm_90a", options)["sums"].launch(1, 64, [out, rounds]))
    for t, found in enumerate(out.tolist()):
        own = np.arange(5 + t % 3) + t
        sums = np.cumsum(own**2)
        assert found == own.sum() + sum(int(sums[j % len(own)]) for j in range(rounds))
