"""`python -m phasebit nvcc` and `python -m phasebit run`.

python -m phasebit nvcc saxpy.cu -o saxpy            # any nvcc option may follow
python -m phasebit nvcc -arch=sm_80 saxpy.cu -o saxpy
python -m phasebit run ./saxpy 1000                  # options of `run` come before the program
python -m phasebit run --ptx other.ptx ./saxpy 1000  # with kernels that were changed by hand
"""

from __future__ import annotations

import argparse
import gc
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from phasebit import toolchain
from phasebit.runtime import elf, library
from phasebit.runtime.memory import SPAN
from phasebit.runtime.program import ProgramError, run_program

DEFAULT_LIMIT = 600.0
_LONGEST = 1e6  # seconds; the limit is a timer of the operating system, which has an end too
_AT_LINK_TIME = ("-dlto", "--dlink-time-opt")
_TARGET = re.compile(r"(?:sm_|compute_)(\d+[af]?)")


def nvcc_command(options: Sequence[str]) -> list[str]:
    """The nvcc command line for a program that the stand-in can run.

    PTX and no machine code, not compressed; the runtime as a shared library, found in the
    stand-in's folder; source lines kept, for findings. `-arch` among `options` picks the target
    (`sm_90a` without it). The same program runs on a GPU, where the driver compiles the PTX.

    Raises toolchain.ToolMissing, library.BuildError, and ValueError for an `-arch` that is none.
    """
    target, rest = toolchain.DEFAULT_TARGET, []
    words = iter(options)
    for word in words:
        name, equals, value = word.partition("=")
        if name in ("-arch", "--gpu-architecture"):
            target = value if equals else next(words, "")
        elif name in _AT_LINK_TIME:
            raise ValueError(
                f"{word}: this leaves no PTX, which is what the emulator reads; "
                "-rdc=true without it does"
            )
        elif name in ("-gencode", "--generate-code"):
            raise ValueError("one program, one target here: give -arch=sm_NN and no -gencode")
        else:
            rest.append(word)
    match = _TARGET.fullmatch(target)
    if not match:
        raise ValueError(f"-arch={target} is not a target: write -arch=sm_90a")
    virtual = f"compute_{match[1]}"
    return [
        str(toolchain.nvcc().path),
        "-gencode",
        f"arch={virtual},code={virtual}",
        "--no-compress",
        "-lineinfo",
        "-cudart",
        "shared",
        "-cudadevrt",
        "none",
        f"-L{library.build()}",
        *rest,
    ]


def nvcc(arguments: argparse.Namespace) -> int:
    """Compile; nvcc's exit status."""
    try:
        command = nvcc_command(arguments.options)
    except (library.BuildError, ValueError) as error:
        return _refuse(error)
    return subprocess.run(command, check=False).returncode


def run(arguments: argparse.Namespace) -> int:
    """Run a program on the emulator; the program's exit status."""
    from phasebit.runtime.emulated import EmulatorBackend

    gc.set_threshold(50_000, 20, 50)  # reading PTX makes a hundred thousand objects that all stay
    try:
        ptx = _text(arguments.ptx) if arguments.ptx else None
        backend = EmulatorBackend(not arguments.fast, arguments.schedule, ptx=ptx)
        return run_program(
            [arguments.program, *arguments.arguments],
            backend,
            limit=arguments.limit or None,
            memory_bytes=arguments.memory and arguments.memory << 20,
        )
    except (ProgramError, elf.UnsuitableProgram, library.BuildError) as error:
        return _refuse(error)
    except KeyboardInterrupt:
        return 130


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise ProgramError(f"cannot read {path}: {error.strerror}") from error


def _refuse(error: Exception) -> int:
    print(f"phasebit: {error}", file=sys.stderr)
    return 2


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= _LONGEST:
        raise argparse.ArgumentTypeError(f"{text} is no time: 0 to {_LONGEST:g} s, 0: never ends")
    return value


def _mebibytes(text: str) -> int:
    most = SPAN // 2 >> 20  # what DeviceMemory hands out at once
    if not text.isdecimal() or not 1 <= int(text) <= most:
        raise argparse.ArgumentTypeError(f"{text} is no amount of memory: 1 to {most} MiB")
    return int(text)


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both subcommands to `python -m phasebit`."""
    command = commands.add_parser(
        "nvcc",
        help="compile a CUDA program that also runs without a GPU",
        add_help=False,
        prefix_chars="\0",  # every option is nvcc's
    )
    command.add_argument("options", nargs=argparse.REMAINDER, help="options and files for nvcc")
    command.set_defaults(run=nvcc)

    command = commands.add_parser("run", help="run a CUDA program without a GPU")
    command.add_argument(
        "--limit", type=_seconds, default=DEFAULT_LIMIT, metavar="SECONDS",
        help=f"end the program after so many seconds (default {DEFAULT_LIMIT:g}; 0: never)",
    )  # fmt: skip
    command.add_argument(
        "--memory", type=_mebibytes, default=0, metavar="MIB",
        help="device memory (default: half of this machine's, 16 GiB at most)",
    )  # fmt: skip
    command.add_argument("--fast", action="store_true", help="do not look for races")
    command.add_argument(
        "--schedule", default="eager", choices=("eager", "late", "random"),
        help="when asynchronous copies finish (default: eager)",
    )  # fmt: skip
    command.add_argument(
        "--ptx", metavar="FILE",
        help="execute this PTX in place of the program's own (of one module, with its kernels)",
    )  # fmt: skip
    command.add_argument("program", help="the program, built with `python -m phasebit nvcc`")
    command.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    command.set_defaults(run=run)
