"""Kernels that only read a matrix, each in another way; and few rows with wider boxes of weights.

What is timed multiplies nothing. Built to be checked, a kernel adds up all 32-bit words of what it
has read.
"""

from __future__ import annotations

from dataclasses import dataclass

from phasebit.chapters.every_shape import plans
from phasebit.chapters.every_shape.plans import Plan
from phasebit.chapters.every_shape.shapes import Shape
from phasebit.edits import replace_each

PROMOTED = ("NONE", "L2_128B", "L2_256B")
"""What a copy may ask memory for beyond its own bytes: names of the driver's constants."""

ANY_MAP = """\
// A tensor map of `rank` dimensions, innermost first; of what is not in the L2 cache so many bytes
// are fetched at a time.
inline CUtensorMap any_map(const bf16* matrix, int rank, const cuuint64_t* dims,
                           const cuuint64_t* strides, const cuuint32_t* box,
                           CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    static Encode encode = [] {
        void* found = nullptr;
        cudaDriverEntryPointQueryResult state;
        CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000,
                                               cudaEnableDefault, &state));
        if (state != cudaDriverEntryPointSuccess) {
            fprintf(stderr, "this driver has no cuTensorMapEncodeTiled: it is older than 12.0\\n");
            exit(1);
        }
        return reinterpret_cast<Encode>(found);
    }();
    const cuuint32_t steps[5] = {1, 1, 1, 1, 1};
    CUtensorMap map;
    const CUresult result =
        encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, rank, const_cast<bf16*>(matrix), dims,
               strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, promotion,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        fprintf(stderr, "cuTensorMapEncodeTiled refuses: error %d\\n", int(result));
        exit(1);
    }
    return map;
}

"""
"""The map of `tensor_map.cuh`, for up to five dimensions and with a promotion."""

_ENCODE = ANY_MAP + """\
inline CUtensorMap promoted_map(const bf16* matrix, int rows, int cols, int box_rows, int box_cols,
                                CUtensorMapSwizzle swizzle, CUtensorMapL2promotion promotion) {
    const cuuint64_t dims[2] = {cuuint64_t(cols), cuuint64_t(rows)};
    const cuuint64_t strides[1] = {cuuint64_t(cols) * 2};
    const cuuint32_t box[2] = {cuuint32_t(box_cols), cuuint32_t(box_rows)};
    return any_map(matrix, 2, dims, strides, box, swizzle, promotion);
}

"""

READ = f"""\
// A matrix is read, and nothing else is done.
#include "every_shape/product.cuh"

{_ENCODE}\
// Pieces of the matrix, and which block takes which.
struct Way {{
    int boxes;          // 1: pieces are boxes of a tensor; 0: bytes that lie in a row
    int pieces, bytes;  // how many; of one
    int along;          // boxes side by side in a row of the matrix
    int cols, rows;     // of a box
    int spread;         // 1: by turns, piece p is block p mod blocks'; 0: each has neighbours
    int slots;
    int blocks;
    int promotion;      // 0: none, 1: 128 bytes, 2: 256
}};

// cp.async.bulk with .L2::cache_hint, 9.7.9.25.4.1. sm_90.
__device__ inline void load_bytes(void* shared, const void* global, unsigned bytes,
                                  unsigned long long* barrier, unsigned long long policy) {{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], %4;"
                 :: "r"(ptx::shared_address(shared)), "l"(global), "r"(bytes),
                    "r"(ptx::shared_address(barrier)), "l"(policy) : "memory");
}}

// A ring of slots. SUMMED: all threads add up what has come; otherwise one thread asks and waits.
template <bool SUMMED>
__global__ void __launch_bounds__(128)
read_ring(const __grid_constant__ CUtensorMap map, const char* memory,
          const __grid_constant__ Way way, unsigned* sum)
{{
    extern __shared__ __align__(1024) char slots[];
    __shared__ unsigned long long full[32];
    const int share = over(way.pieces, gridDim.x);
    const int first = way.spread ? blockIdx.x : blockIdx.x * share;
    const int step = way.spread ? gridDim.x : 1;
    const int end = way.spread ? way.pieces : min(way.pieces, first + share);
    const int count = first < end ? over(end - first, step) : 0;
    const auto policy = ptx::evict_first();
    auto ask = [&](int i, int s) {{
        const int piece = first + i * step;
        char* to = slots + s * way.bytes;
        ptx::mbarrier_arrive_expect_tx(&full[s], way.bytes);
        if (way.boxes)
            ptx::load_box(to, map, piece % way.along * way.cols, piece / way.along * way.rows,
                          &full[s], policy);
        else load_bytes(to, memory + size_t(piece) * way.bytes, way.bytes, &full[s], policy);
    }};
    if (threadIdx.x == 0) {{
        for (int s = 0; s < way.slots; ++s) ptx::mbarrier_init(&full[s], 1);
        ptx::fence_mbarrier_init();
        if (way.boxes) ptx::prefetch_tensormap(map);
        ptx::griddepcontrol_wait();  // the launch before has ended
        for (int i = 0; i < min(count, way.slots); ++i) ask(i, i);
    }}
    __syncthreads();
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    if (!SUMMED && threadIdx.x > 0) return;
    unsigned mine = 0;
    bool phase = false;
    for (int i = 0, s = 0; i < count; ++i) {{
        ptx::mbarrier_wait(&full[s], phase);
        if (SUMMED) {{
            const unsigned* words = reinterpret_cast<const unsigned*>(slots + s * way.bytes);
            for (int w = threadIdx.x; w < way.bytes / 4; w += blockDim.x) mine += words[w];
            __syncthreads();
        }}
        if (threadIdx.x == 0 && i + way.slots < count) ask(i + way.slots, s);
        if (++s == way.slots) s = 0, phase = !phase;
    }}
    if (SUMMED) atomicAdd(sum, mine);
}}

constexpr int LOADS = 8, CHUNK = 256 * LOADS;  // of 16 bytes: 32 KB for a block at a time

// Loads to registers. Their sum is made in any case, or the compiler would leave the loads out;
// without SUMMED it is stored where it happens to be one number.
template <bool SUMMED>
__global__ void __launch_bounds__(256, 4)
read_loads(const uint4* memory, int chunks, unsigned* sum)
{{
    ptx::griddepcontrol_wait();
    ptx::griddepcontrol_launch_dependents();
    unsigned mine = 0;
    for (int chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {{
        uint4 x[LOADS];
#pragma unroll
        for (int i = 0; i < LOADS; ++i)
            asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {{%0, %1, %2, %3}}, [%4];"
                         : "=r"(x[i].x), "=r"(x[i].y), "=r"(x[i].z), "=r"(x[i].w)
                         : "l"(memory + size_t(chunk) * CHUNK + i * 256 + threadIdx.x));
#pragma unroll
        for (int i = 0; i < LOADS; ++i) mine += x[i].x + x[i].y + x[i].z + x[i].w;
    }}
    if (SUMMED || mine == 0x5eedf00d) atomicAdd(sum, mine);
}}

template <bool SUMMED>
void launch_read(const bf16* matrix, int rows, int cols, Way way, unsigned* sum,
                 cudaStream_t stream) {{
    if (way.slots == 0) {{
        const int chunks = size_t(rows) * cols * 2 / (CHUNK * 16);
        start(read_loads<SUMMED>, way.blocks ? way.blocks : chunks, 256, 0, stream, true, 1,
              reinterpret_cast<const uint4*>(matrix), chunks, sum);
        return;
    }}
    const CUtensorMapL2promotion promotions[] = {{
        CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B}};
    const int box_rows = way.boxes ? way.rows : 8, box_cols = way.boxes ? way.cols : 64;
    const CUtensorMap map = promoted_map(
        matrix, rows, cols, box_rows, box_cols,
        box_cols == 64 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_NONE,
        promotions[way.promotion]);
    start(read_ring<SUMMED>, way.blocks, 128, way.slots * way.bytes, stream, true, 1, map,
          reinterpret_cast<const char*>(matrix), way, sum);
}}

extern "C" void read_all(const bf16* matrix, int rows, int cols, const Way* way, int summed,
                         unsigned* sum, cudaStream_t stream) {{
    summed ? launch_read<true>(matrix, rows, cols, *way, sum, stream)
           : launch_read<false>(matrix, rows, cols, *way, sum, stream);
}}
"""
"""All kernels that read, as a library."""


@dataclass(frozen=True)
class Way:
    """How a matrix is read; as the kernel's struct of that name."""

    boxes: int
    pieces: int
    bytes: int
    along: int
    cols: int
    rows: int
    spread: int
    slots: int
    blocks: int
    promotion: int = 0

    @property
    def numbers(self) -> tuple[int, ...]:
        """In the struct's order."""
        return (self.boxes, self.pieces, self.bytes, self.along, self.cols, self.rows,
                self.spread, self.slots, self.blocks, self.promotion)  # fmt: skip


def boxes(
    n: int, k: int, rows: int, cols: int, slots: int, blocks: int, spread: int = 0,
    promotion: int = 0,
) -> Way:  # fmt: skip
    """A matrix (n, k) in boxes; those of one band of rows follow one another."""
    along = -(-k // cols)
    pieces = along * -(-n // rows)
    return Way(1, pieces, rows * cols * 2, along, cols, rows, spread, slots, blocks, promotion)


def in_a_row(n: int, k: int, bytes: int, slots: int, blocks: int, spread: int = 1) -> Way:
    """The same as bytes that lie in a row; raises ``ValueError`` where pieces do not fit."""
    if n * k * 2 % bytes:
        raise ValueError(f"{n} × {k} is not made of pieces of {bytes} bytes")
    return Way(0, n * k * 2 // bytes, bytes, 1, 64, 8, spread, slots, blocks)


def loads(blocks: int = 0) -> Way:
    """By loads to registers, 32 KB at a time; without ``blocks`` a block for each 32 KB."""
    return Way(0, 0, 0, 1, 64, 8, 1, 0, blocks)


PLANS_BOXES, NOTHING, HALF = "boxes as the plan's", "nothing", "half of the bytes, by turns"
ASKED = "boxes as the plan's, whole lines of {} bytes asked for"
BEST = "16 KB by turns, 12 slots"


def ways(shape: Shape, plan: Plan, units: int) -> dict[str, Way]:
    """What only reads the weights of a product, by name."""
    n, k = shape.n, shape.k
    rows = plan.rows if plan.swapped else plan.bn
    blocks, slots = -(-n // rows), plan.slots
    half = in_a_row(n // 2, k, 16384, 12, units)
    nothing = Way(0, 0, 16384, 1, 64, 8, 1, 12, units)
    return {
        PLANS_BOXES: boxes(n, k, rows, 64, slots, blocks),
        ASKED.format(128): boxes(n, k, rows, 64, slots, blocks, promotion=1),
        ASKED.format(256): boxes(n, k, rows, 64, slots, blocks, promotion=2),
        "boxes as the plan's, 12 slots": boxes(n, k, rows, 64, 12, blocks),
        "boxes as the plan's, a share for each multiprocessor": boxes(n, k, rows, 64, slots, units),
        "boxes as the plan's, by turns": boxes(n, k, rows, 64, slots, units, 1),
        "boxes of half the rows, two blocks": boxes(n, k, rows // 2, 64, slots, 2 * blocks),
        "boxes of 256 bytes, half the rows": boxes(n, k, rows // 2, 128, slots, blocks),
        "boxes of 256 bytes, all rows": boxes(n, k, rows, 128, 6, blocks),
        "boxes of 512 bytes, a quarter of the rows": boxes(n, k, rows // 4, 256, slots, blocks),
        "boxes of 512 bytes, by turns": boxes(n, k, rows // 4, 256, slots, units, 1),
        "16 KB in a row, each block its own": in_a_row(n, k, 16384, 6, units, 0),
        "8 KB by turns": in_a_row(n, k, 8192, 12, units),
        "16 KB by turns": in_a_row(n, k, 16384, 6, units),
        "32 KB by turns": in_a_row(n, k, 32768, 3, units),
        BEST: in_a_row(n, k, 16384, 12, units),
        "16 KB by turns, two blocks": in_a_row(n, k, 16384, 6, 2 * units),
        "loads, blocks stay": loads(4 * units),
        "loads, a block for 32 KB": loads(),
        HALF: half,
        NOTHING: nothing,
    }


def promoted(plan: Plan, promotion: str) -> str:
    """A plan's text; of what is not in L2 its copies ask memory for whole lines of so many bytes.

    ``promotion``: one of :data:`PROMOTED`.
    """
    edits = [("void launch(const Product& p) {", f"{_ENCODE}{_OPERAND}"
              "void launch(const Product& p) {")]  # fmt: skip
    for given in ("operand(p.A,", "operand(p.B,"):
        edits.append((given, given.replace("operand", "promoted_operand")))
    return replace_each(plan.text, edits, plan.kernel).replace("WANTED", promotion)


_OPERAND = """\
CUtensorMap promoted_operand(const bf16* matrix, int rows, int K, int box_rows) {
    return promoted_map(matrix, rows, K, box_rows, BK, CU_TENSOR_MAP_SWIZZLE_128B,
                        CU_TENSOR_MAP_L2_PROMOTION_WANTED);
}
"""

_WIDE_BOX = """\
// cp.async.bulk.tensor.3d with .L2::cache_hint, 9.7.9.27.1.2. sm_90.
__device__ inline void load_wide_box(void* shared, const CUtensorMap& map, int panel, int row,
                                     unsigned long long* barrier, unsigned long long policy) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;"
                 :: "r"(ptx::shared_address(shared)), "l"(&map), "r"(0), "r"(panel), "r"(row),
                    "r"(ptx::shared_address(barrier)), "l"(policy) : "memory");
}

struct Ring {"""
_WIDE_LAUNCH = """\
void launch(const Product& p) {
    const cuuint64_t dims[3] = {BK, cuuint64_t(over(p.K, BK)), cuuint64_t(p.N)};
    const cuuint64_t strides[2] = {BK * 2, cuuint64_t(p.K) * 2};
    const cuuint32_t box[3] = {BK, 2, BM / 2};
    const CUtensorMap weights = any_map(p.B, 3, dims, strides, box, CU_TENSOR_MAP_SWIZZLE_128B,
                                        CU_TENSOR_MAP_L2_PROMOTION_NONE);
    start(matmul, over(p.N, BM / 2) * over(p.M, BN / 2), THREADS, sizeof(Ring), p.stream, EARLY, 1,
          weights, operand(p.A, p.M, p.K, BN / 2), p.C, p.N, p.M, p.K);
}
"""


_MEET = "    __syncthreads();  // the others see the barriers\n"
_ZEROS = """\
    if (threadIdx.x < CONSUMERS) {
        for (int s = 0; s < SLOTS; ++s)
            for (int i = threadIdx.x; i < (BM - BROUGHT) * BK / 8; i += CONSUMERS)
                reinterpret_cast<uint4*>(ring.stage[s].a + BROUGHT * BK)[i] = uint4{};
        ptx::fence_proxy_async_shared();  // before products read them
    }
"""


def fewer_rows(plan: Plan, rows: int) -> str:
    """An exchanged plan's text; a block brings fewer rows of weights than its slots have room for.

    The other rows of a slot hold zeros, which are multiplied and not stored.
    """
    edits = (
        ("constexpr int BM = 64 * GROUPS;",
         f"constexpr int BM = 64 * GROUPS, BROUGHT = {rows};  // BROUGHT of weights are a block's"),
        ("(BM + BN) * BK * sizeof(bf16)", "(BROUGHT + BN) * BK * sizeof(bf16)"),
        ("rows = over(M, BM), steps", "rows = over(M, BROUGHT), steps"),
        ("row = blockIdx.x % rows * BM,", "row = blockIdx.x % rows * BROUGHT,"),
        ("if (row + r < M && col + c < N)", "if (r < BROUGHT && row + r < M && col + c < N)"),
        (_MEET, _ZEROS + _MEET),
        ("start(matmul, over(p.N, BM) *", "start(matmul, over(p.N, BROUGHT) *"),
        ("operand(p.B, p.N, p.K, BM)", "operand(p.B, p.N, p.K, BROUGHT)"),
    )  # fmt: skip
    return replace_each(plan.text, edits, plan.kernel)


def wide(groups: int, slots: int, columns: int = 16) -> str:
    """``d_few_rows.cu`` with boxes of 256 bytes of a row: two steps of K in one.

    A row's two panels lie one below the other in a slot, as two rows of 128 bytes. Each is
    multiplied with both panels of A, side by side; half of these products is wanted. K is a
    multiple of 128.
    """
    text = plans.with_constants(plans.source(plans.FEW), GROUPS=groups, BN=2 * columns, SLOTS=slots)
    begin = text.index("// The tile of Cᵀ (M, N) through shared memory")
    end = text.index("__global__ void __launch_bounds__")
    text = text[:begin] + _WIDE_STORE + text[end:]
    begin, end = map(text.index, ("void launch(const Product& p) {", '#include "every_shape/harn'))
    text = text[:begin] + _ENCODE + _WIDE_LAUNCH + "\n" + text[end:]
    edits = (
        ("struct Ring {", _WIDE_BOX),
        ("        ptx::load_box(ring.stage[s].a, A, step * BK, row, &ring.full[s], first);\n",
         "        load_wide_box(ring.stage[s].a, A, step * 2, row, &ring.full[s], first);\n"),
        ("        ptx::load_box(ring.stage[s].b, B, step * BK, col, &ring.full[s], last);\n",
         "        for (int panel = 0; panel < 2; ++panel)\n"
         "            ptx::load_box(ring.stage[s].b + panel * (BN / 2) * BK, B,\n"
         "                          (step * 2 + panel) * BK, col, &ring.full[s], last);\n"),
        ("const int rows = over(M, BM), steps = over(K, BK);",
         "const int rows = over(M, BM / 2), steps = over(K, 2 * BK);"),
        ("row = blockIdx.x % rows * BM, col = blockIdx.x / rows * BN;",
         "row = blockIdx.x % rows * (BM / 2), col = blockIdx.x / rows * (BN / 2);"),
    )  # fmt: skip
    return replace_each(text, edits, plans.FEW)


_WIDE_STORE = """\
// The tile of Cᵀ (M, N) through shared memory, where it becomes one of C (N, M). Of a row of
// weights one thread has the first panel's sums, that four lanes further the second's.
__device__ void store(Ring& ring, const float (&sums)[BN / 2], bf16* C, int M, int N, int row,
                      int col) {
    const int t = threadIdx.x, panel = t / 4 % 2;
    constexpr int HALF = BN / 4;  // sums of one panel of A
    ptx::bar_sync(1, CONSUMERS);  // nobody multiplies from the slots any more
    for (int i = 0; i < HALF; ++i) {
        const float mine = panel ? sums[HALF + i] : sums[i];
        const float both = mine + __shfl_xor_sync(0xffffffff, mine, 4);
        if (panel == 0)
            ring.c[(i / 4 * 8 + t % 4 * 2 + i % 2) * PITCH +
                   (t / 32 * 16 + t % 32 / 4 + i / 2 % 2 * 8) / 2] = __float2bfloat16(both);
    }
    ptx::bar_sync(1, CONSUMERS);
    for (int i = t; i < BM / 2 * (BN / 2) / 8; i += CONSUMERS) {  // 16 bytes each
        const int c = i / (BM / 2 / 8), r = i % (BM / 2 / 8) * 8;
        if (row + r < M && col + c < N)
            *reinterpret_cast<uint4*>(C + size_t(col + c) * M + row + r) =
                *reinterpret_cast<const uint4*>(ring.c + c * PITCH + r);
    }
}

"""
