"""The tests' own PTX of tcgen05 is PTX: ptxas assembles it for sm_100a."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasebit import process, toolchain
from tests.emulator import (
    test_async_overwrite,
    test_cluster_launch,
    test_tcgen05_cp,
    test_tcgen05_pair_ring,
    test_tcgen05_ring,
    test_tcgen05_scaled,
    test_tensor_memory,
)
from tests.emulator.pair_kernels import PairGemm
from tests.emulator.scaled_kernels import Scaled
from tests.emulator.tensor_kernels import Gemm
from tests.emulator.tensor_ptx import frame
from tests.emulator.test_tcgen05_ws import Weights


def loads_and_stores() -> str:
    """Every shape, there and back."""
    lines = []
    for shape in test_tensor_memory.SHAPES:
        registers = test_tensor_memory.registers(20, 2 * test_tensor_memory.REGISTERS[shape])
        more = ", 16" if shape == "16x32bx2" else ""
        lines.append(f"tcgen05.st.sync.aligned.{shape}.x2.b32 [%r5]{more}, {registers};")
        lines.append(f"tcgen05.ld.sync.aligned.{shape}.x2.b32 {registers}, [%r5]{more};")
    four = test_tensor_memory.registers(20, 4)
    lines.append(f"tcgen05.st.sync.aligned.32x32b.x4.unpack::16b.b32 [%r5], {four};")
    lines.append(f"tcgen05.ld.sync.aligned.32x32b.x4.pack::16b.b32 {four}, [%r5];")
    return frame("\n".join([*lines, "tcgen05.wait::ld.sync.aligned;"]))


def copy(shape: str) -> str:
    text = test_tcgen05_cp.COPY.replace("SHAPE", shape).replace("WIDE", "4")
    return text.replace("REGISTERS", test_tensor_memory.registers(20, 4)).replace("STORES", "")


def gemm(kind: str, a: str, b: str, d: str, width: int, **changes: str) -> str:
    return Gemm(kind, 128, 16, a, b, d, width=width, changes=changes).text


def scaled(kind: str, per_row: int, word: str) -> str:
    element = "e4m3" if kind == "mxf8f6f4" else "e2m1"
    text, *_ = Scaled(kind, 16, element, element, per_row, word=word).kernel()
    return text.replace("ADDS", "ne")


def persistent(everywhere: str, query: str) -> str:
    text = test_cluster_launch.PERSISTENT.replace("MULTICAST", everywhere).replace("QUERY", query)
    return text.replace("ASKER", "%p2").replace("SCOPE", "cluster")


TEXTS = {
    "pair": PairGemm("f16", 256, 32, "f16", "f16", "f32", width=2).text,
    "pair, masked": PairGemm("f16", 128, 32, "f16", "f16", "f32", width=2, changes={
        "MASKS": "{%r1, %r1, %r1, %r1, %r1, %r1, %r1, %r1},"}).text,
    "pair's ring": test_tcgen05_pair_ring.RING,
    "persistent": persistent("", test_cluster_launch.ONES),
    "persistent clusters": persistent(".multicast::cluster::all", test_cluster_launch.V4),
    "two tiles through a slot": test_async_overwrite.TWICE.replace(
        "BETWEEN", test_async_overwrite.MBARRIER),
    "loads and stores": loads_and_stores(),
    "ring": test_tcgen05_ring.RING,
    "f16": gemm("f16", "f16", "f16", "f32", 2, MASKS="{%r1, %r1, %r1, %r1},", SCALE=", 3"),
    "f16, A in tensor memory": gemm("f16", "f16", "f16", "f32", 2, A_OPERAND="[%r4]"),
    "f16, A in tensor memory, shifted": gemm(
        "f16", "f16", "f16", "f32", 2, A_OPERAND="[%r4]").replace("kind::f16", "kind::f16.ashift"),
    "tf32": gemm("tf32", "tf32", "tf32", "f32", 4),
    "f8f6f4": gemm("f8f6f4", "e4m3", "e5m2", "f32", 1),
    "i8": gemm("i8", "s8", "u8", "s32", 1),
    **{f"cp {shape}": copy(shape) for shape in [
        *test_tcgen05_cp.ROWS, "4x256b", "128x256b.b8x16.b4x16_p64", "4x256b.b8x16.b6x16_p32",
        "32x128b.warpx4.b8x16.b4x16_p64",
    ]},
    "shift": copy("4x256b").replace("tcgen05.commit", "tcgen05.shift.cta_group::1.down [%r6];\n"
                                    "    tcgen05.commit", 1),
    "ws": Weights(32, 64, mask=", %rd19", collector=".collector::b1::fill").text,
    "ws without a mask": Weights(64, 256, "s8").text,
    **{f"{kind} {word}": scaled(kind, n, word) for kind, n, _, word in test_tcgen05_scaled.FORMS
       if "block32" not in word and "block16" not in word},
}


@pytest.mark.nvcc
@pytest.mark.parametrize("name", TEXTS)
def test_ptxas_takes_it(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kernel.ptx"
    path.write_text(TEXTS[name])
    command = toolchain.nvcc_command("cubin", "sm_100a")
    done = process.run([*command, path, "-o", tmp_path / "kernel.cubin"], timeout=60)
    assert done.ok and not done.stderr, done.stderr
