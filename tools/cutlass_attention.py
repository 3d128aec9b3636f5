"""Count what CUTLASS's attention for Blackwell executes, beside ours in *Attention again*.

    python tools/cutlass_attention.py CHECKOUT

CHECKOUT is one of github.com/NVIDIA/cutlass. Writes records/attention_cutlass.json. Needs
nvidia-cutlass-dsl and nvdisasm, no GPU.
"""

from __future__ import annotations

import datetime
import json
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import phasebit.cute
from phasebit import files, toolchain
from phasebit.chapters.attention_again import cutlass_fmha, product_issue, role_counts
from phasebit.chapters.attention_again import tensor_attention as kernels
from phasebit.instruments import cutlass_examples
from phasebit.instruments.executed import counting
from phasebit.runtime import in_process


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    checkout = Path(sys.argv[1])
    example = cutlass_examples.module(checkout, cutlass_fmha.FILE)
    data = kernels.draw(role_counts.SHAPE)
    with (
        counting(role_counts.CUTLASS) as counts,
        product_issue.executed(role_counts.CUTLASS["multiplier"].start) as opcodes,
        phasebit.cute.emulated("sm_100a", schedules="eager") as runs,
    ):
        out = cutlass_fmha.attend(example, data)
        [ptx] = in_process.process().device.texts.values()
    if kernels.off(role_counts.SHAPE, data, out) > 1 or runs.findings:
        sys.exit(f"nothing written: the kernel was not right, or {runs}")
    record = {
        "date": datetime.date.today().isoformat(), "target": "sm_100a",
        "package": f"nvidia-cutlass-dsl {version('nvidia-cutlass-dsl')}",
        "source": f"github.com/NVIDIA/cutlass, {cutlass_examples.EXAMPLES}/{cutlass_fmha.FILE}",
        "commit": cutlass_examples.commit(checkout),
        "nvcc": toolchain.nvcc().version,
        "problem": "256 queries, 512 keys, a head of 128, bf16, normal numbers",
        "softmax_registers": cutlass_fmha.softmax_registers(checkout),
        "ours": asdict(role_counts.ours()), "cutlass": asdict(counts),
        "issue": {
            "ours": product_issue.ours(kernels.source(kernels.REGISTERS)),
            "elected": product_issue.ours(product_issue.elected()),
            "cutlass": product_issue.counted(opcodes, product_issue.assembled(ptx)),
        },
    }  # fmt: skip
    path = files.records() / role_counts.RECORD
    path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
