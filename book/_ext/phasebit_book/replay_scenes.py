"""The scenes of the replays: which kernels run, how large, and what their parts are called.

Sizes are the smallest at which every slot is used twice, or nearly so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from phasebit import files
from phasebit.edits import replace_each, replace_once
from phasebit.emulator import EmulatorError, Finding, TensorMap, formats
from phasebit.launching import launch
from phasebit.launching.slot_history import Places, Ring

Found = Sequence[Finding]
AS_IT_IS = "as it is"


@dataclass(frozen=True)
class Scene:
    """A kernel that is replayed.

    ``programs``: what each text is called -> the text; the first one is shown first. ``run(text,
    schedule)`` runs it on the emulator and returns what was found. ``size`` says what is made.
    """

    title: str
    size: str
    programs: Callable[[], Mapping[str, str]]
    run: Callable[[str, str], Found]
    rings: Sequence[Ring | Places] = ()
    """Empty: one ring, *full* of every slot before *empty* of every slot, if there are barriers."""
    barriers: Sequence[str] = ()
    """Names in the order in which they lie; empty: those of the rings."""
    roles: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """What warps do, in a word or two -> which."""
    file: str = "source.cu"
    """Where the text stands, as the compiler knows it."""
    schedules: Sequence[str] = ("late", "eager", "random")
    """When what is asked for ends."""
    blocks: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """What each block of a cluster is called -> its ``roles``; empty: block 0 alone is shown."""
    places: Callable[[], Mapping[str, tuple[int, int]]] | None = None
    """What is shown -> the number of its launch and of its block; none: as ``blocks`` says."""
    own_names: bool = False
    """Barriers are called as the program calls them."""

    def shown(self) -> Mapping[str, tuple[int, int]]:
        """What is shown -> the number of its launch, and of its block."""
        if self.places is not None:
            return self.places()
        return {name: (0, block) for block, name in enumerate(self.blocks or [""])}


# -- names and texts ----------------------------------------------------------------


def each(name: str, count: int) -> list[str]:
    """``full[0]``, ``full[1]``, …"""
    return [f"{name}[{n}]" for n in range(count)]


def ring(slots: int, name: str = "slot", prefix: str = "") -> Ring:
    """A ring whose barriers are called *full* and *empty*."""
    return Ring(name, each(f"{prefix}full", slots), each(f"{prefix}empty", slots))


def _kernel(name: str, **mistakes: tuple[str, str]) -> Callable[[], dict[str, str]]:
    """A kernel's file, and copies in which some words are others."""

    def texts() -> dict[str, str]:
        text = files.kernel(name)
        return {AS_IT_IS: text} | {
            what.replace("_", " "): replace_once(text, *words, f"{name}.cu")
            for what, words in mistakes.items()
        }

    return texts


def found(make: Callable[[], Any]) -> Found:
    """What was found in a run, also in one that did not end well.

    A run for which this machine has no memory says nothing of its kernel: that error goes on.
    """
    try:
        return tuple(make().findings)
    except EmulatorError as error:
        if isinstance(error.__cause__, MemoryError):
            raise
        return (*error.findings, error.finding)


# -- part IV ------------------------------------------------------------------------


def _tile(text: str, schedule: str) -> Found:
    from phasebit.chapters.double_buffering import observed

    return found(lambda: observed.emulate(text, 192, schedule)[0])


def _one_slot() -> dict[str, str]:
    from phasebit.chapters.double_buffering import controls

    return {
        AS_IT_IS: controls.source("barrier_double_buffer"),
        "with one slot": controls.source("ring, one slot"),
    }


def _filter(threads: int) -> Callable[[str, str], Found]:
    def run(text: str, schedule: str) -> Found:
        from phasebit.chapters.asynchronous_copies import exercises

        return found(lambda: exercises.run(text, threads, schedule=schedule)[0])

    return run


def _examined(text: str, schedule: str) -> Found:
    from phasebit.chapters.warp_specialisation import clinic

    return clinic.examine(text, schedule).findings


def _patient(name: str) -> Scene:
    def texts() -> dict[str, str]:
        from phasebit.chapters.warp_specialisation import clinic

        return {
            "with the mistake": clinic.source(name),
            "repaired": clinic.source(name, repaired=True),
        }

    number, _, words = name.partition("_")
    patient = f"Patient {int(number)}" if number.isdigit() else "A bug that people had"
    return Scene(f"{patient}: {words.replace('_', ' ')}", "C = A · B; block 0 is shown",
                 texts, _examined, file="patient.cu")  # fmt: skip


_WAIT = "        __pipeline_wait_prior(STAGES - 1);  // my copies of this tile have arrived\n"
_EMPTY = "        __syncthreads();                    // the slot is empty again\n"


def _tensor_ring(text: str, schedule: str) -> Found:
    from phasebit.chapters.tensor_cores import exercises

    kernel = "gemm<Tiling<64, 64, 64, 32, 32>, 3, 16, In, Out>"
    return found(lambda: exercises.emulate(
        kernel, (64, 64, 320), 1, 128, shared=3 * 16384, arguments=[8], schedule=schedule,
        arch="sm_80",
    )[0])  # fmt: skip


def _part_four() -> dict[str, Scene]:
    tiles = "C is 32 × 32 and K is 192: six tiles"
    producing = {"producers": range(8), "consumers": range(8, 16)}
    outputs = "2565 sums of nine neighbours: six tiles of 512"
    return {
        "tiled": Scene(
            "One tile at a time", tiles,
            _kernel("double_buffering/tiled", without_the_second_barrier=(
                "        __syncthreads();  // the tile is empty again\n", "")),
            _tile,
        ),
        "barrier_double_buffer": Scene(
            "Two slots, two roles", tiles, _one_slot, _tile, roles=producing,
        ),
        "no_first_arrivals": Scene(
            "Nobody says at first that the slots are empty", tiles,
            _kernel("double_buffering/barrier_double_buffer", without_the_first_arrivals=(
                "for (int slot = 0; slot < SLOTS; ++slot) (void)ring.empty[slot].arrive();", "")),
            _tile, roles=producing,
        ),
        "groups": Scene(
            "Copies in groups", outputs,
            _kernel("asynchronous_copies/groups", without_the_wait=(_WAIT, "\n"),
                    without_the_second_barrier=(_EMPTY, "\n")),
            _filter(128), [Places("slot", 0, 2080, 4)],
        ),
        "mbarrier": Scene(
            "Copies that arrive", outputs, _kernel("asynchronous_copies/mbarrier"), _filter(160),
            roles={"consumers": range(4), "producer": [4]},
        ),
        "gemm": Scene(
            "A ring for tensor cores", "one tile of C, 64 × 64, and K is 320: five tiles",
            _kernel_header, _tensor_ring, [Places("slot", 0, 16384, 3)], file="gemm.cuh",
        ),
    }  # fmt: skip


def _kernel_header() -> dict[str, str]:
    path = files.kernels() / "tensor_cores" / "gemm.cuh"
    return {"": path.read_text(encoding="utf-8")}


# -- part V -------------------------------------------------------------------------


def _bulk(text: str, schedule: str) -> Found:
    x, y = np.arange(3000, dtype=np.float32), np.full(3000, np.nan, np.float32)
    kernel = launch.compile(text, "sm_90a")["halve"]
    return found(lambda: kernel.launch(1, 128, [x, y, len(x)], schedule=schedule))


def _left_out() -> dict[str, str]:
    from phasebit.chapters.warpgroup_products import left_out

    return {mistake: left_out.text(mistake) for mistake in left_out.LEFT_OUT}


def _first_product(text: str, schedule: str) -> Found:
    m, n, k = 64, 128, 192
    draw = np.random.default_rng(16)
    a, b = (formats.encode("bf16", draw.integers(-4, 5, (rows, k)).astype(np.float64))
            for rows in (m, n))  # fmt: skip
    c = np.full((m, n), np.nan, np.float32)
    kernel = launch.compile(text, "sm_90a")["matmul"]
    return found(lambda: kernel.launch(1, 128, [a, b, c, m, n, k], schedule=schedule))


def _copy_ring(k: int) -> Callable[[str, str], Found]:
    def run(text: str, schedule: str) -> Found:
        from phasebit.chapters.hopper_ring import exercises

        return found(lambda: exercises.emulate(text, (128, 256, k), schedule=schedule)[0])

    return run


def _mistaken_rings() -> dict[str, str]:
    from phasebit.chapters.hopper_ring import broken_ring

    return {mistake: broken_ring.broken(mistake) for mistake in broken_ring.BROKEN}


def _small_pair(text: str, schedule: str) -> Found:
    x = np.random.default_rng(17).integers(-9, 10, (7 * 8, 64)).astype(np.float32)
    kernel = launch.compile(text, "sm_90a")["pair"]
    sums = np.full(64, np.nan, np.float32)
    return found(lambda: kernel.launch(2, 96, [TensorMap(x, (64, 4)), sums, 7], schedule=schedule))


def _mistaken_pairs() -> dict[str, str]:
    from phasebit.chapters.hopper_ring import pairs

    return {mistake: pairs.broken(mistake) for mistake in pairs.BROKEN}


def _boxes_of_c(text: str, schedule: str) -> Found:
    from phasebit.chapters.hopper_ring.exercises import bf16

    m, n, k = 128, 512, 192
    draw = np.random.default_rng(17)
    maps = [TensorMap(bf16(draw.integers(-1, 2, (rows, k)).astype(np.float32)), (64, box),
                      data_type="bf16", swizzle="128B")
            for rows, box in ((m, 128), (n, 256))]  # fmt: skip
    c = np.full((m, n), 0xFFFF, np.uint16)
    maps.append(TensorMap(c, (64, 16), data_type="bf16", swizzle="128B"))
    kernel = launch.compile(text, "sm_90a")["matmul"]
    tiles = np.array([m, n, k, 128], np.int32).tobytes()
    return found(lambda: kernel.launch(1, 384, [*maps, tiles], shared=232_448, schedule=schedule))


def _shape(m: int, n: int, k: int, workers: int = 1) -> Callable[[str, str], Found]:
    def run(text: str, schedule: str) -> Found:
        from phasebit.chapters.every_shape import on_emulator

        return found(lambda: on_emulator.multiply(
            text, m, n, k, workers=workers, schedule=schedule).run)  # fmt: skip

    return run


def _plan(kernel: str, **constants: int) -> Callable[[], dict[str, str]]:
    """A kernel of *Every shape*, in small tiles."""

    def texts() -> dict[str, str]:
        from phasebit.chapters.every_shape import plans

        return {"": plans.Plan(kernel, **{"groups": 2, "bn": 32, "slots": 3, **constants}).text}

    return texts


def _fused_texts() -> dict[str, str]:
    from phasebit.chapters.epilogues_and_groups import fused_slips

    slip = fused_slips.SLIPS["the warp groups do not wait for their turn"]
    right = slip._replace(edits=())
    return {AS_IT_IS: right.source, "the groups do not wait for their turn": slip.source}


def _fused(text: str, schedule: str) -> Found:
    from phasebit.chapters.epilogues_and_groups import epilogues

    given = epilogues.Numbers.draw(256, 256, 192, 7)
    alone = epilogues.Programs({"": text})
    return found(lambda: epilogues.launched(alone, "", given, workers=1, schedule=schedule)[0].run)


def _gather_texts() -> dict[str, str]:
    from phasebit.chapters.two_gpus import link_slips, on_peers

    slip = "the flag is stored without a release"
    wrong = dict(link_slips.SLIPS[slip].edits)
    text = on_peers.source(on_peers.GATHER)
    return {AS_IT_IS: text, slip: replace_each(text, tuple(wrong.items()), on_peers.GATHER)}


def _gather(text: str, schedule: str) -> Found:
    from phasebit.chapters.two_gpus import on_peers

    return on_peers.run(text, schedule=schedule).findings


def _attention_text() -> dict[str, str]:
    from phasebit.chapters.attention import attend

    return {"": attend.together({"kernel": attend.source("c_overlapped")}, (64, False))}


def _attention(text: str, schedule: str) -> Found:
    from phasebit.chapters.attention import attend

    heads = attend.heads(64, 128, 512)
    overlapped = attend.source("c_overlapped")
    return found(lambda: attend.attend(overlapped, heads, schedule=schedule).run)


def _eight_bits(text: str, schedule: str) -> Found:
    from phasebit.chapters.eight_bits import product
    from phasebit.chapters.eight_bits.scaled import ROWS, SQUARES

    a = product.plain(128, 768, 1, blocks=ROWS)
    b = product.plain(256, 768, 2, blocks=SQUARES)
    return found(lambda: product.multiply(a, b, text, schedule=schedule).run)


def _part_five() -> dict[str, Scene]:
    multiplying = {"multiply": range(8), "produces": [8]}
    staying = [*each("full", 3), *each("empty", 3), *each("turn", 2)]
    announced = "expect_tx(&full, count * sizeof(float)"
    return {
        "bulk_copy": Scene(
            "A bulk copy", "3000 floats: three tiles of up to 1024, one slot",
            _kernel("copy_engine/bulk_copy",
                    sixteen_bytes_too_few_announced=(announced, announced + " - 16"),
                    sixteen_bytes_too_many_announced=(announced, announced + " + 16")),
            _bulk, [Ring("slot", ["full"])],
        ),
        "wgmma": Scene(
            "A warp group's first product", "one tile of C, 64 × 128, and K is 192: three slices",
            _left_out, _first_product,
        ),
        "b_ring": Scene(
            "The copy engine's ring", "one tile of C, 128 × 256, and K is 512: eight steps",
            lambda: {"": files.kernel("hopper_ring/b_ring")}, _copy_ring(512), roles=multiplying,
        ),
        "broken_ring": Scene(
            "The ring, and six mistakes", "one tile of C, 128 × 256, and K is 384: six steps",
            _mistaken_rings, _copy_ring(384), roles=multiplying,
        ),
        "d_boxes_of_c": Scene(
            "A block that stays, and stores by boxes",
            "C is 128 × 512 and K is 192: two tiles of three steps, one block",
            lambda: {"": files.kernel("hopper_ring/d_boxes_of_c")}, _boxes_of_c,
            roles=multiplying,
        ),
        "small_pair": Scene(
            "Two blocks, one stream", "seven tiles of 8 × 64 numbers, half a tile from each block",
            _mistaken_pairs, _small_pair, schedules=("late",),
            blocks={f"block {n}": {"consumers": range(2), "producer": [2]} for n in range(2)},
        ),
        "a_small_tiles": Scene(
            "A plan: small tiles, three slots",
            "one tile of C, 128 × 32, and K is 448: seven steps",
            _plan("a_small_tiles"), _shape(128, 32, 448), roles=multiplying,
        ),
        "d_few_rows": Scene(
            "Few rows: A and B exchanged", "C is 16 × 128 and K is 448: seven steps",
            _plan("d_few_rows", bn=16), _shape(16, 128, 448), roles=multiplying,
        ),
        "e_pairs": Scene(
            "Pairs of blocks that stay", "C is 256 × 64 and K is 256: two tiles of four steps",
            _plan("e_pairs", pair=2), _shape(256, 64, 256), [ring(3)], staying,
            blocks={f"block {n}": multiplying for n in range(2)},
        ),
        "f_stream_k": Scene(
            "Stream-K: a tile that two blocks share",
            "C is 128 × 96 and K is 256: three tiles for two blocks",
            _plan("f_stream_k", waves=1), _shape(128, 96, 256, workers=2), [ring(3)], staying,
            blocks={f"block {n}": multiplying for n in range(2)},
        ),
        "h_ping_pong": Scene(
            "Ping-pong: two groups by turns",
            "C is 128 × 64 and K is 256: four tiles of four steps",
            _plan("h_ping_pong", groups=1), _shape(128, 64, 256), [ring(3)], staying,
            {"first group": range(4), "second group": range(4, 8), "produces": [8]},
        ),
        "a_fused": Scene(
            "Two groups by turns", "C is 256 × 256 and K is 192: four tiles of three steps",
            _fused_texts, _fused, [ring(3)],
            [*each("full", 3), *each("empty", 3), *each("turn", 2)],
            {"first group": range(4), "second group": range(4, 8), "produces": [8]},
        ),
        "a_gather": Scene(
            "Slots on the other GPU", "two GPUs, each with half the rows of a matrix of 64 × 32",
            _gather_texts, _gather, file="two.cu", schedules=("late",),
            places=lambda: {f"GPU {gpu}, block {block}": (gpu, block)
                            for gpu in range(2) for block in range(2)},
        ),
        "c_overlapped": Scene(
            "Attention with two groups",
            "128 queries and 512 keys of a head of 64: four tiles of keys, one block",
            _attention_text, _attention,
            [ring(2, "keys", "k_"), ring(2, "values", "v_")],
            ["q_full", *each("k_full", 2), *each("k_empty", 2), *each("v_full", 2),
             *each("v_empty", 2)],
            {"first group": range(4), "second group": range(4, 8), "produces": range(8, 12)},
        ),
        "b_block_scales": Scene(
            "Scales through the ring",
            "one tile of C, 128 × 256, and K is 768: six steps, each with scales of its own",
            lambda: {"": files.kernel("eight_bits/b_block_scales")}, _eight_bits,
            roles=multiplying,
        ),
    }  # fmt: skip


# -- part VI ------------------------------------------------------------------------


def _weigh(text: str, schedule: str) -> Found:
    from phasebit.chapters.tensor_memory import cells

    return found(lambda: cells.weigh(text, schedule=schedule)[0])


def _one_thread(text: str, schedule: str) -> Found:
    from phasebit.chapters.one_thread_multiplies import blackwell

    return found(lambda: blackwell.multiply(text, 128, 128, 256, schedule=schedule)[0])


def _queue(text: str, schedule: str) -> Found:
    from phasebit.chapters.one_thread_multiplies import described

    return found(lambda: described.queued(text, schedule=schedule)[0])


def _queue_texts() -> dict[str, str]:
    """The kernel, and without the commit and the wait between its copy and its shifts."""
    text = files.kernel("one_thread_multiplies/queue")
    begin = text.index("        ptx::tcgen05_commit(&first);")
    end = text.index("        for (int quarter")
    return {AS_IT_IS: text, "without the wait": text[:begin] + text[end:]}


def _sparse(text: str, schedule: str) -> Found:
    from phasebit.chapters.other_forms import halved

    return found(lambda: halved.multiply(*halved.numbers(1), text, schedule=schedule)[1])


def _launch_control(text: str, schedule: str) -> Found:
    from phasebit.chapters.chain import kernels

    return found(lambda: kernels.multiply(text, 640, 256, 64, schedule=schedule).run)


def _chain(text: str, schedule: str) -> Found:
    from phasebit.chapters.chain import kernels

    return found(lambda: kernels.multiply(text, 384, 256, 192, schedule=schedule).run)


def _pair(text: str, schedule: str) -> Found:
    from phasebit.chapters.chain import kernels

    return found(lambda: kernels.multiply(text, 256, 512, 320, schedule=schedule).run)


def _low_precision(text: str, schedule: str) -> Found:
    from phasebit.chapters.low_precision import nvfp4

    a, b = nvfp4.plain(128, 1280, 1), nvfp4.plain(128, 1280, 2)
    return found(lambda: nvfp4.multiply(a, b, text, schedule=schedule).run)


def _two_sums(text: str, schedule: str) -> Found:
    from phasebit.chapters.low_precision import nvfp4

    a, b = nvfp4.plain(128, 512, 1), nvfp4.plain(768, 512, 2)
    return found(lambda: nvfp4.multiply(a, b, text, schedule=schedule).run)


def _attention_again(text: str, schedule: str) -> Found:
    from phasebit.chapters.attention_again import tensor_attention

    data = tensor_attention.draw(tensor_attention.Shape(256, 384))
    return found(lambda: tensor_attention.attend(text, data, schedule=schedule).run)


def _polynomial() -> dict[str, str]:
    from phasebit.chapters.attention_again import tensor_attention

    return {"": tensor_attention.source("d_polynomial")}


def _in_parts() -> dict[str, str]:
    from phasebit.chapters.attention_again import handing_over

    return {"": handing_over.in_parts(64)}


def _registers() -> dict[str, str]:
    from phasebit.chapters.attention_again import tensor_attention

    text = tensor_attention.source("e_registers")
    then = "    const uint2 halves"
    return {
        AS_IT_IS: text,
        "without the wait for the stores": replace_once(
            text, "    ptx::tcgen05_wait_st();\n" + then, then
        ),
    }


def _python() -> dict[str, str]:
    from phasebit.chapters.cute_dsl import cute_ptx

    return {"": cute_ptx.source(cute_ptx.GEMM)}


def _from_python(text: str, schedule: str) -> Found:
    from phasebit.chapters.cute_dsl import cute_ptx, ptx_runs

    ptx = cute_ptx.ptx(text).ptx
    return found(lambda: ptx_runs.multiply(ptx, 384, 256, 192, schedule=schedule).run)


def _gluon_text() -> dict[str, str]:
    from phasebit.chapters.in_other_languages import languages

    return {"": languages.source("gluon")}


def _gluon(text: str, schedule: str) -> Found:
    from phasebit.chapters.in_other_languages import languages

    return found(lambda: languages.multiply(
        languages.kept("gluon"), 256, 128, 256, schedule=schedule)[0])  # fmt: skip


def _part_six() -> dict[str, Scene]:
    chain_size = "C is 384 × 256 and k is 192: three tiles of three slices, one block"
    epilogue = {"epilogue": range(4), "loads": [4], "multiplies": [5]}
    chain = [ring(4), ring(2, "sum", "sum_")]
    barriers = [
        f"{name}[{n}]"
        for name, count in (
            ("q_full", 2),
            ("kv_full", 3),
            ("kv_empty", 3),
            ("s_full", 2),
            ("factor_full", 2),
            ("sum_full", 2),
            ("ready", 2),
            ("o_full", 2),
            ("out_full", 2),
        )
        for n in range(count)
    ]
    attending = {
        "softmax, tile 0": range(4),
        "softmax, tile 1": range(4, 8),
        "correction": range(8, 12),
        "loads": [12],
        "multiplies": [13],
        "stores": [14],
    }
    return {
        "a_in_tensor_memory": Scene(
            "Weights that go to tensor memory", "P is 128 × 64, V is 64 × 64: one product of four",
            _kernel("tensor_memory/a_in_tensor_memory", without_the_wait_for_the_stores=(
                "    ptx::tcgen05_wait_st();\n", "")),
            _weigh, barriers=["done"],
        ),
        "tcgen05": Scene(
            "One stage, and one thread that multiplies", "C is 128 × 128 and K is 256: four slices",
            lambda: {"": files.kernel("one_thread_multiplies/tcgen05")}, _one_thread,
            barriers=["done"],
        ),
        "queue": Scene(
            "Operations of one thread", "A is 128 × 16, B is 32 × 16: two products",
            _queue_texts, _queue, [ring(0)], ["first", "done"],
        ),
        "sparse": Scene(
            "Half of A is zero", "C is 128 × 64 and K is 128: a copy of metadata, four products",
            _kernel("other_forms/sparse", without_the_metadata=(
                "        copy_metadata(base", "        if (false) copy_metadata(base")),
            _sparse, barriers=["done"],
        ),
        "launch_control": Scene(
            "Tiles on demand", "C is 640 × 256 and k is 64: five tiles, block 0 is shown",
            _kernel("chain/launch_control", without_the_readers_fence=(
                "        ptx::fence_proxy_async_shared();  // the next answer comes after what I "
                "have read\n", "")),
            _launch_control, [ring(2, "answer", "answer_"), *chain],
            [*each("full", 4), *each("empty", 4), *each("sum_full", 2), *each("sum_empty", 2),
             *each("answer_full", 2), *each("answer_empty", 2)],
            epilogue | {"asks": [6]},
        ),
        "nvfp4_two_sums": Scene(
            "Two sums that overlap", "C is 128 × 768 and K is 512: three tiles of two slices",
            lambda: {"": files.whole_kernel("low_precision/nvfp4_two_sums")}, _two_sums,
            [ring(3), Ring("sum", ["sum_full"], ["sum_free"])],
            [*each("full", 3), *each("empty", 3), "sum_full", "sum_free"], epilogue,
        ),
        "chain": Scene(
            "A chain of rings", chain_size, lambda: {"": files.kernel("chain/chain")}, _chain,
            chain, roles=epilogue,
        ),
        "pair": Scene(
            "The chain, in a pair of blocks",
            "C is 256 × 512 and k is 320: two tiles of five slices, each made by both blocks",
            lambda: {"": files.kernel("chain/pair")}, _pair,
            [Ring("slot", each("full", 6), each("empty", 6), full_in=0),
             Ring("sum", each("sum_full", 2), each("sum_empty", 2), empty_in=0)],
            [*each("full", 6), *each("empty", 6), *each("sum_full", 2), *each("sum_empty", 2)],
            schedules=("late", "eager"),
            blocks={"block 0": epilogue,
                    "block 1": {"epilogue": range(4), "loads": [4], "no role": [5]}},
        ),
        "nvfp4": Scene(
            "A product of NVFP4", "C is 128 × 128 and K is 1280: five slices, three slots",
            lambda: {"": files.whole_kernel("low_precision/nvfp4")}, _low_precision,
            [ring(3)], [*each("full", 3), *each("empty", 3), "done"], epilogue,
        ),
        "d_polynomial": Scene(
            "Attention by fifteen warps", "256 queries and 384 keys: two tiles, three steps",
            _polynomial, _attention_again, [ring(3, "slot", "kv_")], barriers,
            attending,
        ),
        "in_two_parts": Scene(
            "Weights in two parts", "256 queries and 384 keys: two tiles, three steps",
            _in_parts, _attention_again, [ring(3, "slot", "kv_")], [*barriers, *each("half", 2)],
            attending, schedules=("late", "eager"),
        ),
        "e_registers": Scene(
            "Attention whose rows stay in registers",
            "256 queries and 384 keys: two tiles, three steps",
            _registers, _attention_again, [ring(3, "slot", "kv_")], barriers,
            attending | {"no role": [15]}, schedules=("late",),
        ),
        "cute_dsl": Scene(
            "The chain in CuTe DSL", chain_size, _python, _from_python, chain, roles=epilogue,
            file="gemm.py",
        ),
        "gluon": Scene(
            "The ring in Gluon", "C is 256 × 128 and K is 256: two tiles of four slices, one block",
            _gluon_text, _gluon, [ring(3), Ring("sum", each("ready", 2), each("free", 2))],
            [*each("full", 3), *each("empty", 3), *each("ready", 2), *each("free", 2)],
            {"store": range(4), "no role": [4, 5], "load": [6], "multiply": [7]},
            file="gluon_gemm.py",
        ),
    }  # fmt: skip


CLINIC = (
    "01_one_warp_loads", "02_fragment_shape", "03_store_in_tiles", "04_scaled_twice",
    "05_last_prefetch", "06_define_m", "07_slot_from_k", "08_slot_being_filled",
    "09_slots_and_bytes", "10_no_drain", "11_arrive_count", "12_stale_parity", "13_sync_in_role",
    "14_early_return", "15_early_release", "16_proxy_fence",
    "r1_wait_too_late", "r2_one_for_all", "r3_epilogue", "r5_tail",
)  # fmt: skip
"""The patients, and what people told of, where the emulator finds it."""

SCENES: dict[str, Scene] = {
    **_part_four(), **{name: _patient(name) for name in CLINIC}, **_part_five(), **_part_six(),
}  # fmt: skip
"""What may be replayed, beside the bugs of the collection."""
