"""Matrix instructions from end to end: CUDA by nvcc, PTX in the emulator, an oracle of loops.

Every kernel here is one instruction: a thread loads its registers from global
memory, executes it, stores what it got.  The same kernels ran on an H200; its
answers, recorded on 2026-11-21 with CUDA 13.0, are in ``test_matrix_h200.npz`` and
must come out of the emulator bit by bit, rounding, NaNs and all.  (On that day 512
warps a kernel were compared: 3.8 million numbers, all equal.  The file keeps 16.)
"""

from __future__ import annotations

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from phasebit import process, toolchain
from phasebit.emulator.errors import Fault, PtxError
from phasebit.emulator.numbers.formats import FORMATS, decode, encode
from phasebit.emulator.numbers.fragments import accumulator, operand_a, operand_b, pack, unpack
from phasebit.emulator.tensor_core import arithmetic as tensor_core
from phasebit.launching.launch import Module, compile

RECORD = Path(__file__).with_name("test_matrix_h200.npz")


@dataclass(frozen=True)
class Case:
    """One ``mma``: its shape and the types of D, A, B and C."""

    shape: tuple[int, int, int]
    types: tuple[str, str, str, str]
    suffix: str = ""

    @property
    def name(self) -> str:
        m, n, k = self.shape
        return f"m{m}n{n}k{k}_" + "_".join(self.types) + self.suffix.replace(".", "_")

    @property
    def opcode(self) -> str:
        m, n, k = self.shape
        types = ".".join(self.types)
        return f"mma.sync.aligned.m{m}n{n}k{k}.row.col{self.suffix}.{types}"

    @property
    def per_register(self) -> int:
        return {"f16": 2, "bf16": 2, "tf32": 1, "f64": 1, "s4": 8, "u4": 8}.get(self.types[1], 4)

    @property
    def counts(self) -> tuple[int, int, int]:
        """Registers of A, B and C a thread."""
        m, n, k = self.shape
        of_c = m * n // 32 // (2 if self.types[0] == "f16" else 1)
        return m * k // 32 // self.per_register, n * k // 32 // self.per_register, of_c


def _floats(kind: str, accumulate: str, *shapes: tuple[int, int, int]) -> list[Case]:
    return [Case(shape, (accumulate, kind, kind, accumulate)) for shape in shapes]


MMA = [
    *_floats("f16", "f32", (16, 8, 8), (16, 8, 16)),
    *_floats("f16", "f16", (16, 8, 8), (16, 8, 16)),
    *_floats("bf16", "f32", (16, 8, 8), (16, 8, 16)),
    *_floats("tf32", "f32", (16, 8, 4), (16, 8, 8)),
    *_floats("e4m3", "f32", (16, 8, 32)),
    *_floats("e5m2", "f32", (16, 8, 32)),
    *_floats("e4m3", "f32", (16, 8, 16)),
    *_floats("e5m2", "f16", (16, 8, 16)),
    *_floats("e4m3", "f16", (16, 8, 32)),
    Case((16, 8, 32), ("f32", "e4m3", "e5m2", "f32")),
    *_floats("f64", "f64", (8, 8, 4), (16, 8, 4), (16, 8, 8), (16, 8, 16)),
    *_floats("s8", "s32", (8, 8, 16), (16, 8, 16), (16, 8, 32)),
    *_floats("u8", "s32", (16, 8, 32)),
    Case((16, 8, 32), ("s32", "s8", "u8", "s32")),
    Case((16, 8, 32), ("s32", "s8", "s8", "s32"), ".satfinite"),
    *_floats("s4", "s32", (8, 8, 32), (16, 8, 32), (16, 8, 64)),
    *_floats("u4", "s32", (16, 8, 64)),
]  # fmt: skip


def source(case: Case) -> str:
    """The kernel of a case."""
    word, letter = ("double", "d") if case.types[0] == "f64" else ("unsigned", "r")
    a, b, c = case.counts
    number = iter(range(a + b + 2 * c))
    lists = ["{" + ",".join(f"%{next(number)}" for _ in range(n)) + "}" for n in (c, a, b, c)]
    outputs = ", ".join(f'"={letter}"(d[i * {c} + {j}])' for j in range(c))
    inputs = ", ".join(
        f'"{letter}"({x}[i * {n} + {j}])' for x, n in zip("abc", (a, b, c), strict=True)
        for j in range(n)
    )  # fmt: skip
    return f"""
extern "C" __global__ void {case.name}(const {word} *a, const {word} *b, const {word} *c, {word} *d)
{{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    asm volatile("{case.opcode} {", ".join(lists)};" : {outputs} : {inputs});
}}"""


@dataclass(frozen=True)
class Wmma:
    """One ``wmma`` program: shape, types of A and of D, layouts of A, B and D."""

    shape: tuple[int, int, int]
    kind: str
    result: str
    layouts: tuple[str, str, str] = ("row", "col", "row")
    pad: int = 0
    """Elements between the end of a row and the next one."""

    @property
    def name(self) -> str:
        m, n, k = self.shape
        return f"wmma_m{m}n{n}k{k}_{self.kind}_{self.result}_{'_'.join(self.layouts)}_{self.pad}"

    @property
    def extents(self) -> list[tuple[int, int]]:
        """Of A, B and D in memory: lines, and elements from one to the next."""
        m, n, k = self.shape
        shapes = ((m, k), (k, n), (m, n))
        return [
            (lines, length + self.pad)
            for (rows, columns), layout in zip(shapes, self.layouts, strict=True)
            for lines, length in [(rows, columns) if layout == "row" else (columns, rows)]
        ]


WMMA = [
    Wmma((16, 16, 16), "f16", "f32"),
    Wmma((16, 16, 16), "f16", "f16", ("col", "row", "col"), 8),
    Wmma((32, 8, 16), "f16", "f32", ("row", "row", "col"), 8),
    Wmma((8, 32, 16), "f16", "f16", ("col", "col", "row")),
    Wmma((16, 16, 16), "bf16", "f32", ("row", "row", "row"), 8),
    Wmma((32, 8, 16), "bf16", "f32"),
    Wmma((8, 32, 16), "bf16", "f32"),
    Wmma((16, 16, 8), "tf32", "f32", ("col", "row", "row"), 4),
    Wmma((16, 16, 16), "s8", "s32"),
    Wmma((32, 8, 16), "u8", "s32", ("col", "row", "col"), 16),
    Wmma((8, 32, 16), "s8", "s32"),
    Wmma((8, 8, 4), "f64", "f64", ("row", "col", "row"), 2),
]
CUDA_TYPE = {"f16": "half", "bf16": "__nv_bfloat16", "tf32": "precision::tf32", "s8": "signed char",
             "u8": "unsigned char", "f64": "double", "f32": "float", "s32": "int"}  # fmt: skip


def wmma_source(case: Wmma) -> str:
    """A warp a block; doubles D element by element, which needs no knowledge of the layout."""
    m, n, k = case.shape
    kind, result = CUDA_TYPE[case.kind], CUDA_TYPE[case.result]
    memory = "float" if case.kind == "tf32" else kind
    a, b, d = case.layouts
    (la, sa), (lb, sb), (ld, sd) = case.extents
    return f"""
extern "C" __global__ void {case.name}(const {memory} *a, const {memory} *b, const {result} *c,
                                       {result} *d)
{{
    fragment<matrix_a, {m}, {n}, {k}, {kind}, {a}_major> fa;
    fragment<matrix_b, {m}, {n}, {k}, {kind}, {b}_major> fb;
    fragment<accumulator, {m}, {n}, {k}, {result}> fc;
    load_matrix_sync(fa, a + blockIdx.x * {la * sa}, {sa});
    load_matrix_sync(fb, b + blockIdx.x * {lb * sb}, {sb});
    load_matrix_sync(fc, c + blockIdx.x * {ld * sd}, {sd}, mem_{d}_major);
    mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] + fc.x[i];
    store_matrix_sync(d + blockIdx.x * {ld * sd}, fc, {sd}, mem_{d}_major);
}}"""


MOVES = [
    *(("ldmatrix", count, trans) for count in (1, 2, 4) for trans in (False, True)),
    *(("stmatrix", count, trans) for count in (1, 2, 4) for trans in (False, True)),
    ("movmatrix", 1, True),
]


def move_name(move: tuple[str, int, bool]) -> str:
    word, count, trans = move
    return f"{word}_x{count}" + "_trans" * trans


def row_of(lane: int) -> int:
    """The row whose address a lane gives: not its own, so that a mix-up shows."""
    return (lane * 5 + 3) % 32


def move_source(move: tuple[str, int, bool]) -> str:
    """Each warp has 32 rows of 16 bytes in shared memory."""
    word, count, trans = move
    modifiers = f"sync.aligned.m8n8.x{count}{'.trans' * trans}.shared.b16"
    registers = "{" + ",".join(f"%{j}" for j in range(count)) + "}"
    head = f'extern "C" __global__ void {move_name(move)}(const unsigned *in, unsigned *out)'
    begin = """
    __shared__ __align__(16) unsigned tile[128 * 4];
    int t = threadIdx.x, i = blockIdx.x * 128 + t;
    int row = t / 32 * 32 + (t % 32 * 5 + 3) % 32;
    unsigned address = (unsigned)__cvta_generic_to_shared(tile + 4 * row);"""
    if word == "movmatrix":
        return (
            head
            + """ {
    int i = blockIdx.x * 128 + threadIdx.x;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out[i]) : "r"(in[i]));
}"""
        )
    if word == "ldmatrix":
        results = ", ".join(f'"=r"(out[i * {count} + {j}])' for j in range(count))
        return (
            head
            + " {"
            + begin
            + f"""
    for (int j = 0; j < 4; j++) tile[4 * t + j] = in[4 * i + j];
    __syncthreads();
    asm volatile("ldmatrix.{modifiers} {registers}, [%{count}];" : {results} : "r"(address));
}}"""
        )
    given = ", ".join(f'"r"(in[i * {count} + {j}])' for j in range(count))
    return (
        head
        + " {"
        + begin
        + f"""
    for (int j = 0; j < 4; j++) tile[4 * t + j] = 0;
    __syncthreads();
    asm volatile("stmatrix.{modifiers} [%{count}], {registers};"
                 :: {given}, "r"(address) : "memory");
    __syncthreads();
    for (int j = 0; j < 4; j++) out[4 * i + j] = tile[4 * t + j];
}}"""
    )


def everything() -> str:
    """All kernels as one CUDA source."""
    head = "#include <mma.h>\n#include <cuda_bf16.h>\nusing namespace nvcuda::wmma;\n"
    parts = [*map(source, MMA), *map(wmma_source, WMMA), *map(move_source, MOVES)]
    return head + "\n".join(parts)


# -- inputs ----------------------------------------------------------------------

MODES = ("integers", "normal", "wide", "sparse", "tiny", "patterns", "special", "large")
"""What the numbers of a warp are like; the modes take turns."""


def values(kind: str, mode: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Numbers of one mode, as bit patterns of a float format."""
    form = FORMATS[kind]
    reach = 2 ** (form.exponent_bits - 1) - 2
    normal = rng.standard_normal(shape)
    if mode == "integers":
        x = rng.integers(-8, 9, shape).astype(np.float64)
    elif mode == "normal":
        x = normal
    elif mode in ("wide", "large"):
        span = min(reach // 2, 40)
        x = normal * 2.0 ** rng.integers(-span, span + 1, shape)
        if mode == "large":
            x = normal * 2.0 ** (reach - rng.integers(0, 8, shape))
    elif mode == "sparse":
        x = np.where(rng.random(shape) < 0.7, np.copysign(0.0, normal), normal)
    else:
        limit = form.largest + 1 if mode == "patterns" else 3 << form.mantissa_bits
        code = rng.integers(0, limit, shape) | np.where(normal < 0, form.sign_bit, 0)
        bits = (code << form.low_bits).astype(form.storage)
        if mode != "special":
            return bits
        x = np.where(rng.random(shape) < 0.97, normal, decode(kind, bits))
        strange = rng.choice([np.inf, -np.inf, np.nan, 0.0], shape)
        x = np.where(rng.random(shape) < 0.03, strange, x)
    return encode(kind, x, satfinite=mode != "special")


def generator(name: str) -> np.random.Generator:
    """Random numbers that depend on a kernel's name only."""
    return np.random.default_rng(
        int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
    )


def numbers(kind: str, size: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Elements of any type, [warps, ...]; the modes take turns over the warps."""
    if kind == "f64":
        x = rng.standard_normal(size) * 2.0 ** rng.integers(-30, 30, size)
        return np.where(rng.random(size) < 0.05, rng.choice([0.0, -0.0, 1.0], size), x)
    if kind not in FORMATS:
        form = np.dtype({"s8": "i1", "u8": "u1", "s32": "i4"}[kind])
        info = np.iinfo(form)
        return rng.integers(info.min, info.max, size, form, endpoint=True)
    elements = np.concatenate(
        [values(kind, MODES[w % len(MODES)], (1, *size[1:]), rng) for w in range(size[0])]
    )
    if kind == "f32":  # in some warps the accumulator is zero
        elements[1::16] = 0
        elements[4::16] = 0
    return elements


def inputs(case: Case, warps: int) -> list[np.ndarray]:
    """The registers of A, B and C for ``warps`` warps, [warps, 32, registers]."""
    rng = generator(case.name)
    result = []
    for count, kind in zip(case.counts, case.types[1:], strict=True):
        if kind == "f64":
            result.append(numbers(kind, (warps, 32, count), rng))
        elif kind in FORMATS:
            per_register = 4 // FORMATS[kind].storage.itemsize
            result.append(pack(numbers(kind, (warps, 32, count * per_register), rng)))
        else:
            result.append(rng.integers(0, 1 << 32, (warps, 32, count), np.uint32))
    if case.types[0] == "s32":  # some accumulators near overflow, some small
        result[2][1::2] >>= 8
    return result


def wmma_inputs(case: Wmma, warps: int) -> list[np.ndarray]:
    """A, B and C in memory, [warps, lines, stride]."""
    rng = generator(case.name)
    kinds = (case.kind, case.kind, case.result)
    return [
        numbers(kind, (warps, *extent), rng)
        for kind, extent in zip(kinds, case.extents, strict=True)
    ]


def move_inputs(move: tuple[str, int, bool], warps: int) -> np.ndarray:
    """[warps, 32, words]: the rows to load, or the registers to store."""
    word, count, _ = move
    words = 4 if word == "ldmatrix" else count
    return generator(move_name(move)).integers(0, 1 << 32, (warps, 32, words), np.uint32)


def digest(arrays: list[np.ndarray]) -> int:
    """A fingerprint of the inputs: the record is good for these only."""
    joined = b"".join(np.ascontiguousarray(x).tobytes() for x in arrays)
    return int.from_bytes(hashlib.sha256(joined).digest()[:8], "little")


# -- the emulator's answers -----------------------------------------------------------

WARPS = 16


@pytest.fixture(scope="module")
def module() -> Module:
    """All kernels, built for sm_90a."""
    return compile(everything(), arch="sm_90a")


def answer(
    module: Module, name: str, operands: list[np.ndarray], result: np.ndarray, a_block: int
) -> np.ndarray:
    """What a kernel writes, with ``a_block`` warps a block; the checker finds nothing wrong."""
    run = module[name].launch(
        grid=(WARPS // a_block,), block=(32 * a_block,), args=[*operands, result], check=True
    )
    assert run.findings == []
    return result


def job(name: str) -> tuple[list[np.ndarray], np.ndarray, int]:
    """Of a kernel: its operands, an array for its result, and warps a block."""
    for case in MMA:
        if case.name == name:
            operands = inputs(case, WARPS)
            return operands, np.zeros_like(operands[2]), 4
    for wmma in WMMA:
        if wmma.name == name:
            operands = wmma_inputs(wmma, WARPS)
            return operands, np.zeros_like(operands[2]), 1
    move = next(m for m in MOVES if move_name(m) == name)
    words = {"ldmatrix": move[1], "stmatrix": 4, "movmatrix": 1}[move[0]]
    return [move_inputs(move, WARPS)], np.zeros((WARPS, 32, words), np.uint32), 4


NAMES = [*(c.name for c in MMA), *(c.name for c in WMMA), *map(move_name, MOVES)]


@pytest.mark.nvcc
@pytest.mark.parametrize("name", NAMES)
def test_the_h200_gives_the_same_bits(module: Module, name: str) -> None:
    operands, result, a_block = job(name)
    recorded = np.load(RECORD)
    assert recorded[name + ".inputs"] == digest(operands), "the inputs changed: record again"
    got = answer(module, name, operands, result, a_block)
    want = recorded[name]
    bits = f"u{want.itemsize}"
    np.testing.assert_array_equal(got.view(bits), want.view(bits))


@pytest.mark.nvcc
@pytest.mark.parametrize("wrong", ("fraction_bits", "block_bytes", "fp8_as_f16"))
def test_the_record_catches_another_model(
    module: Module, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: one bit less kept, half the block, fp8 as one block.  The H200 disagrees."""
    right = tensor_core.MODELS["hopper"]
    values = {"fraction_bits": 24, "block_bytes": 16, "fp8_as_f16": False}
    other = dataclasses.replace(right, **{wrong: values[wrong]})
    monkeypatch.setattr(tensor_core.accumulate, "__defaults__", (other, None))
    kind = "e4m3" if wrong == "fp8_as_f16" else "f16"
    shape = "m16n8k32" if wrong == "fp8_as_f16" else "m16n8k16"
    with pytest.raises(AssertionError, match="not equal"):
        test_the_h200_gives_the_same_bits(module, f"{shape}_f32_{kind}_{kind}_f32")


# -- movement, against loops ------------------------------------------------------------


def halves(words: np.ndarray) -> np.ndarray:
    """The 16-bit elements of 32-bit words, low half first; a view."""
    return words.view(np.uint16)


@pytest.mark.nvcc
@pytest.mark.parametrize("move", MOVES, ids=map(move_name, MOVES))
def test_movement_against_loops(module: Module, move: tuple[str, int, bool]) -> None:
    """PTX ISA 9.7.14.5.15 to 9.7.14.5.17, one element at a time."""
    word, count, trans = move
    operands, result, a_block = job(move_name(move))
    given = operands[0]
    got = answer(module, move_name(move), operands, result, a_block)
    want = np.zeros_like(got)
    for w, j, lane, half in np.ndindex(WARPS, count, 32, 2):
        row, column = lane // 4, 2 * (lane % 4) + half
        if trans:
            row, column = column, row
        if word == "movmatrix":  # row g, columns 2t and 2t + 1 are in lane 4g + t
            halves(want[w, lane])[half] = halves(given[w, 4 * row + column // 2])[column % 2]
        elif word == "ldmatrix":
            halves(want[w, lane])[2 * j + half] = halves(given[w, row_of(8 * j + row)])[column]
        else:
            halves(want[w, row_of(8 * j + row)])[column] = halves(given[w, lane])[2 * j + half]
    np.testing.assert_array_equal(got, want)


@pytest.mark.nvcc
@pytest.mark.parametrize("case", MMA, ids=lambda case: case.name)
def test_mma_of_small_integers(module: Module, case: Case) -> None:
    """Their sums are exact whatever the rounding: here only a layout can be wrong."""
    m, n, k = case.shape
    rng = generator(case.name)
    kinds = case.types[1:]
    low = 0 if "u8" in kinds or "u4" in kinds else -2
    whole = [rng.integers(low, 3, (WARPS, *s)) for s in ((m, k), (k, n), (m, n))]
    parts = (
        operand_a(m, k, case.per_register),
        operand_b(n, k, case.per_register),
        accumulator(m, n),
    )
    operands = []
    for matrix, part, kind in zip(whole, parts, kinds, strict=True):
        elements = part.spread(matrix)
        if kind == "f64":
            operands.append(elements.astype(np.float64))
        elif kind in FORMATS:
            operands.append(pack(encode(kind, elements.astype(np.float64))))
        elif kind in ("s4", "u4"):
            nibbles = (elements & 15).astype(np.uint8)
            operands.append(pack(nibbles[..., ::2] | nibbles[..., 1::2] << 4))
        else:
            operands.append(pack(elements.astype(np.int32 if kind == "s32" else np.int8)))
    got = answer(module, case.name, operands, np.zeros_like(operands[2]), 4)
    if case.types[0] == "f16":
        got = decode("f16", unpack(got, 2))
    elif case.types[0] != "f64":
        got = got.view(np.int32 if case.types[0] == "s32" else np.float32)
    np.testing.assert_array_equal(parts[2].collect(got), whole[0] @ whole[1] + whole[2])


def test_ldmatrix_of_bytes_against_loops() -> None:
    """m16n16.trans.b8 (sm_100a), as read from the ISA's figure: no GPU here has answered yet."""
    text = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd4];
    shl.b32 %r6, %r1, 4;
    mov.u32 %r7, tile;
    add.s32 %r8, %r7, %r6;
    st.shared.v4.b32 [%r8], {%r2, %r3, %r4, %r5};
    bar.warp.sync -1;
    ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {%r2, %r3, %r4, %r5}, [%r8];
    st.global.v4.b32 [%rd5], {%r2, %r3, %r4, %r5};
    ret;
}"""
    given = np.arange(512, dtype=np.uint16).astype(np.uint8).reshape(32, 16)
    given[16:] = generator("bytes").integers(0, 256, (16, 16))
    got = np.zeros((32, 4), np.uint32)
    Module(text)["k"].launch(grid=(1,), block=(32,), args=[given, got])
    for lane, j, byte in np.ndindex(32, 4, 4):
        row, column = lane // 4 + 8 * (j % 2), 4 * (lane % 4) + byte  # of the transposed
        assert got[lane].view(np.uint8)[4 * j + byte] == given[16 * (j // 2) + column, row]


SHORT_ROWS = {
    "m8n16.x1.shared.b8x16.b4x16_p64": 4, "m8n16.x4.shared.b8x16.b6x16_p32": 6,
    "m8n16.x2.shared::cta.b8x16.b4x16_p64": 4, "m16n16.x1.trans.shared.b8x16.b6x16_p32": 6,
    "m16n16.x2.trans.shared::cta.b8x16.b4x16_p64": 4,
}  # fmt: skip


def short_rows(form: str, width: int) -> str:
    """Each lane stores a row, of which only the numbers are ever written, and all load."""
    count = int(form.split(".")[1][1:]) * (2 if "m16" in form else 1)
    registers = ", ".join(f"%r{2 + i}" for i in range(count))
    stores = "st.shared.v2.b32 [%r8], {%r2, %r3};" + " st.shared.b32 [%r8+8], %r4;" * (width == 6)
    return f""".version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out) {{
    .reg .b32 %r<9>;
    .reg .b64 %rd<9>;
    .shared .align 16 .b8 tile[512];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd3, %r1, 16;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.v4.b32 {{%r2, %r3, %r4, %r5}}, [%rd4];
    shl.b32 %r6, %r1, 4;
    mov.u32 %r7, tile;
    add.s32 %r8, %r7, %r6;
    {stores}
    bar.warp.sync -1;
    ldmatrix.sync.aligned.{form} {{{registers}}}, [%r8];
    st.global.v4.b32 [%rd5], {{%r2, %r3, %r4, %r5}};
    ret;
}}"""


@pytest.mark.parametrize("form", SHORT_ROWS)
def test_9_7_14_5_15_short_numbers_get_a_byte_each(form: str) -> None:
    """16 numbers of 4 or 6 bits stand in the first 8 or 12 of 16 bytes: the padding is not read."""
    width, count = SHORT_ROWS[form], int(form.split(".")[1][1:])
    given = generator(form).integers(0, 256, (32, 16)).astype(np.uint8)
    got = np.zeros((32, 4), np.uint32)
    run = Module(short_rows(form, width))["k"].launch(grid=(1,), block=(32,), args=[given, got])
    assert not run.findings
    rows = []
    for row in given:
        number = int.from_bytes(bytes(row), "little")
        rows.append([number >> width * i & (1 << width) - 1 for i in range(16)])
    tall = "m16" in form
    for lane, j, byte in np.ndindex(32, count * (2 if tall else 1), 4):
        found = got[lane].view(np.uint8)[4 * j + byte]
        if tall:
            row, column = lane // 4 + 8 * (j % 2), 4 * (lane % 4) + byte
            assert found == rows[16 * (j // 2) + column][row]
        else:
            assert found == rows[8 * j + lane // 4][4 * (lane % 4) + byte]


@pytest.mark.nvcc
@pytest.mark.parametrize("form", SHORT_ROWS)
def test_ptxas_takes_short_numbers(form: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(short_rows(form, SHORT_ROWS[form]))
    command = toolchain.nvcc_command("cubin", "sm_100a")
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr


# -- what the checker sees --------------------------------------------------------------

RACE = """
extern "C" __global__ void race(const unsigned *in, unsigned *out) {
    __shared__ __align__(16) unsigned tile[64 * 4];
    int t = threadIdx.x;
    for (int j = 0; j < 4; j++) tile[4 * t + j] = in[4 * t + j];
    WAIT
    unsigned address = (unsigned)__cvta_generic_to_shared(tile + 4 * ((t + 32) % 64));
    unsigned r;
    asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(r) : "r"(address));
    out[t] = r;
}"""


@pytest.mark.nvcc
def test_ldmatrix_takes_part_in_races() -> None:
    """Each warp loads what the other wrote: with a barrier nothing, without one a race."""
    given = np.arange(256, dtype=np.uint32)
    for wait, found in (("__syncthreads();", False), ("", True)):
        kernel = compile(RACE.replace("WAIT", wait), arch="sm_90a")["race"]
        run = kernel.launch(grid=(1,), block=(64,), args=[given, np.zeros(64, np.uint32)])
        assert bool(run.findings) == found, run.findings


@pytest.mark.nvcc
def test_ldmatrix_conflicts_are_counted() -> None:
    """Rows 16 or 112 bytes apart: one wavefront a matrix; 128 bytes apart: eight."""
    text = """
extern "C" __global__ void rows(unsigned *out, int apart) {
    extern __shared__ __align__(128) unsigned tile[];
    for (int i = threadIdx.x; i < 1024; i += 32) tile[i] = i;
    __syncwarp();
    unsigned address = (unsigned)__cvta_generic_to_shared(tile) + threadIdx.x * apart, r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address));
    out[threadIdx.x] = r[0] + r[1] + r[2] + r[3];
}"""
    kernel = compile(text, arch="sm_90a")["rows"]
    for apart, wavefronts in ((16, 4), (128, 32), (112, 4)):
        run = kernel.launch(block=(32,), args=[np.zeros(32, np.uint32), apart], shared=4096)
        name = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"
        assert run.counters[name] == wavefronts


# -- what must be refused ---------------------------------------------------------------

HEAD = ".version 9.0\n.target sm_90a\n.address_size 64\n"


def test_a_warp_that_is_not_whole_is_an_error() -> None:
    text = (
        HEAD
        + """.visible .entry k() {
    .reg .b32 %r<3>;
    mov.u32 %r1, 7;
    movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r1;
    ret;
}"""
    )
    with pytest.raises(Fault, match="needs all 32 threads of the warp"):
        Module(text)["k"].launch(grid=(1,), block=(48,))
    Module(text)["k"].launch(grid=(1,), block=(64,))


def test_too_few_registers_are_an_error() -> None:
    text = (
        HEAD
        + """.visible .entry k() {
    .reg .b32 %r<9>;
    mov.u32 %r1, 0;
    mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r2,%r3,%r4,%r5}, {%r1,%r1}, {%r1,%r1},
        {%r1,%r1,%r1,%r1};
    ret;
}"""
    )
    with pytest.raises(Fault, match="16×16 matrix of f16 is 8 elements a thread"):
        Module(text)["k"].launch(grid=(1,), block=(32,))


def test_an_unknown_shape_is_an_error_with_its_line() -> None:
    text = (
        HEAD
        + """.visible .entry k() {
    .reg .b32 %r<9>;
    mma.sync.aligned.m16n8k99.row.col.f32.f16.f16.f32 {%r2}, {%r1}, {%r1}, {%r1};
    ret;
}"""
    )
    with pytest.raises(PtxError, match=r"line 6.*m16n8k99"):
        Module(text)["k"].launch(grid=(1,), block=(32,))
