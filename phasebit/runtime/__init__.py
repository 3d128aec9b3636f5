"""Run unmodified CUDA programs on a machine without a GPU.

    python -m phasebit nvcc saxpy.cu -o saxpy
    python -m phasebit run ./saxpy

The program is a process of its own. A small C library, built on first use, stands in for its
`libcudart`, of CUDA 12 or 13; over a socket it passes what the program asks to the process that
started it, which owns the device's memory and executes kernels with `phasebit.emulator`. Two
processes, because host code may do anything: exit, crash, spin, fork. Device memory is one file
that both map, so a launch copies nothing, and the program goes on while its kernels run, as with a
GPU.

| the program's half, in C | the device's half |
| --- | --- |
| `registry.c` what nvcc registers before main | `fatbin.py` PTX out of the program |
| `launch.c` `function.c` shapes, limits, arguments | `server.py` launches in order |
| `memory.c` `pool.c` `pinned.c` `copy.c` `symbol.c` | `mapped_memory.py` who owns which bytes |
| `arena.c` device memory, mapped into the program | `mapped_memory.py` |
| `stream.c` `event.c` `graph.c` `capture.c` | `clock.py` what events read |
| `stream.c` | `side_by_side.py` what several devices do at the same time |
| `device.c` the device's numbers | `properties.py`, `phasebit.occupancy` |
| `tensor_map.c` descriptions of boxes | `emulated.py` |
| `library.c` code that a program brings as text | `fatbin.py` |
| `of_cuda_12.c` calls that CUDA 13 changed | |
| `error.c` `wire.c` one message at a time | `protocol.py` `connection.py` |
| | `report.py` `known.py` `sarif.py` `junit.py` what was found |

Each C file serves one need, and its first line says whose. The book's kernels make 29 of the calls;
the others are for programs that know nothing of this one. A test sees to it that each is made by a
program of `tests/runtime/programs`, whose output was the same on an H200.

Programs of the driver library (`-lcuda`) find a `libcuda.so.1` beside it, whose calls (`driver/`)
are said with calls of the runtime's: `driver_library.py`. A Python package that launches kernels
itself needs no second process: `in_process.py`.

`apart.py` runs a program from Python, `library.py` builds the C half, `run_program.py` starts a
program and ends it, `elf.py` refuses one that would not load the stand-in, `backend.py` is what the
runtime needs of an emulator and `emulated.py` is the emulator seen that way. Read `protocol.py`
first, then `c/launch.c` and `server.py`: the two ends of a launch.

What is found, and how the program ends, is said in sentences on standard error, each line led by
`phasebit: `: each place once, with a count (`--all` tells every finding by itself, `--quiet` none).
A finding names its rule, and `python -m phasebit rules` lists these with their grades. The exit
status is 99 when something is found in a program that comes to its own end, and else that end's;
`--error-exitcode 0` leaves the program's own.

`--report FILE` writes what is found to a file as well: SARIF 2.1.0 (`.sarif`, `sarif.py`), JUnit's
XML (`.xml`, `junit.py`), or JSON, a line each, which `--json` prints:
`{"finding": {"rule", "grade", "message", "kernel", "launch", "at", "places", "threads", …}}` and at
last `{"end": {"status", "signal", "limit"}}`. See `report.py`.

What is known already need not fail a run: `--suppress race@scan.cuh:41`, a file of such lines
(`--suppressions`), or a baseline (`--write-baseline known.json`, then `--baseline known.json`). All
of it is counted, and a suppression that matches nothing is said. See `known.py`.

`--devices 2` gives the program several devices, up to eight, each with streams and variables of its
own; `side_by_side.py` lets their kernels run at the same time, so one may wait for a flag that
another device sets. What devices tell each other needs `.sys` scope (`device-scope`), memory of a
peer must have been opened (`no-peer-access`), and races between them are found. The driver library
knows the first device only. Not judged between devices: copies by the copy engine and by the host.

What differs from a GPU: times are the emulator's clock; with one device work runs in the order in
which it was issued, so kernels that wait for later ones do not end (a livelock, and called so);
a kernel's atomics hold against the host's only with system scope (`atomicAdd_system`), and such a
one waits for as long as the host changes the same word without a pause; arrays, textures and
whatever else `symbols.txt` names and the C sources do not define fail with their name.
"""
