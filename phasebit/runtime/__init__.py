"""Run unmodified CUDA programs on a machine without a GPU.

    python -m phasebit nvcc saxpy.cu -o saxpy
    python -m phasebit run ./saxpy

The program is a process of its own. A small C library, built on first use, stands in for its
`libcudart.so.13`; over a socket it passes what the program asks to the process that started it,
which owns the device's memory and executes kernels with `phasebit.emulator`. Two processes,
because host code may do anything: exit, crash, spin, fork. Device memory is one file that both
map, so a launch copies nothing, and the program goes on while its kernels run, as with a GPU.

| the program's half, in C | the device's half |
| --- | --- |
| `registry.c` what nvcc registers before main | `fatbin.py` PTX out of the program |
| `launch.c` `function.c` shapes, limits, arguments | `server.py` launches in order |
| `memory.c` `pinned.c` `arena.c` `copy.c` `symbol.c` | `memory.py` who owns which bytes |
| `stream.c` `event.c` `graph.c` `capture.c` | `clock.py` what events read |
| `device.c` `pool.c` | `device.py` `occupancy.py` the device's numbers |
| `error.c` `wire.c` one message at a time | `protocol.py` `connection.py` |

`library.py` builds the C half, `program.py` starts a program and ends it, `elf.py` refuses one
that would not load the stand-in, `backend.py` is what the runtime needs of an emulator and
`emulated.py` is the emulator seen that way. Read `protocol.py` first, then `c/launch.c` and
`server.py`: the two ends of a launch.

What differs from a GPU: there is one device; times are the emulator's clock; work runs in the order
in which it was issued, so kernels that wait for later kernels do not end; a kernel's atomics hold
against the host's only with system scope (`atomicAdd_system`), and such a one waits for as long as
the host changes the same word without a pause; arrays, textures and whatever else `symbols.txt`
names and the C sources do not define fail with their name.
"""
