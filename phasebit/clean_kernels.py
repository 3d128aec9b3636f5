"""The book's kernels that are right, under the four tools of compute-sanitizer.

Which they are, each chapter says in a module ``clean`` of its folder: ``programs()`` gives names
and programs. They check their results as always; a verdict counts only of a program that ended
well. (The patients of the clinic and their repaired twins are in the record of their chapter.)
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from phasebit import chapters, hardware, measure, replay, toolchain
from phasebit.instruments import programs, sanitizer
from phasebit.instruments.sanitizer import Program

NAME = "clean_kernels"
_OF_A_GPU = "gpu", "driver"
_SECONDS = 200.0  # of one program under one tool


def every() -> dict[str, Program]:
    """Every program that is looked at: its chapter and what it is called there -> the program."""
    return {
        f"{chapter}/{name}": program
        for chapter in chapters.having("clean")
        for name, program in chapters.load(chapter, "clean").programs().items()
    }


def record() -> dict[str, Any]:
    """What each tool says of each program, on this machine's GPU.

    A program that the record holds as it is, looked at with the same tools, keeps what was said of
    it, with the day and the GPU of that. A program that needs more GPUs than are here is left out.

    Raises :class:`toolchain.CudaError` when there is no GPU or no compute-sanitizer, or when a
    program fails without it.
    """
    facts, known = measure.facts(), sanitizer.version()
    everything = every()
    notes = dict.fromkeys(program.inputs for program in everything.values())
    texts = {name: replay.key(program.text) for name, program in everything.items()}
    tools = {"tools": sanitizer.protocol()}
    today = {**facts, "compute-sanitizer": known, "protocol": tools}
    compared = {field: value for field, value in today.items() if field not in _OF_A_GPU}
    kept = sanitizer.kept(NAME, "programs", texts, compared)
    if kept:
        before = measure.read(NAME)["gpu"]
        kept = {name: {"gpu": before} | said for name, said in kept.items()}
    new = {name: program for name, program in everything.items() if name not in kept}
    new = _that_fit(new)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        built = dict(zip(new, pool.map(_command, new.items()), strict=True))
    # Kernels that wait for another GPU's would wait for the tools' other programs there, too.
    apart = any(program.gpus > 1 for program in new.values())
    with ThreadPoolExecutor(1 if apart else os.cpu_count()) as pool:
        list(pool.map(lambda command: programs.output(Path(command[0]), *command[1:]),
                      built.values()))  # fmt: skip
        said = {
            (name, tool): pool.submit(sanitizer.under, tool, command, _file(name), _SECONDS)
            for tool in sanitizer.TOOLS
            for name, command in built.items()
        }
        verdicts = {key: future.result() for key, future in said.items()}
    for (name, tool), verdict in verdicts.items():
        if verdict["verdict"] != "nothing":
            print(f"⏱ {tool}, {name}: {verdict}")
    looked_at = {
        name: {
            "text": texts[name],
            "date": facts["date"],
            "gpu": facts["gpu"],
            "tools": {tool: verdicts[name, tool] for tool in sanitizer.TOOLS},
        }
        for name in new
    }
    return {
        "benchmark": NAME,
        **today,
        "protocol": tools | {"inputs": "; ".join(notes)},
        "programs": {
            name: kept.get(name) or looked_at[name] for name in everything if name in kept | new
        },
    }


def _that_fit(new: dict[str, Program]) -> dict[str, Program]:
    """Those for which this machine has GPUs enough; of the others it is said."""
    for name, program in new.items():
        if program.gpus > hardware.gpus():
            print(f"⏱ {name} needs {program.gpus} GPUs: it is not in the record")
    return {name: program for name, program in new.items() if program.gpus <= hardware.gpus()}


def _file(name: str) -> str:
    return f"{name.replace('/', '_').replace(' ', '_').replace(',', '')}.cu"


def _command(item: tuple[str, Program]) -> list[str]:
    name, program = item
    if program.command:
        return [*program.command]
    built = toolchain.build(program.text, name=_file(name)).program
    return [os.fspath(built), *program.arguments]
