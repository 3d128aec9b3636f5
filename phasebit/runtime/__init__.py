"""Run unmodified CUDA programs on a machine without a GPU.

A small C library, built on first use, stands in for `libcudart.so.13` inside the program; it
passes what the program asks to this package, which owns the device's memory and executes kernels
with `phasebit.emulator`. Read `protocol.py` first, then `c/launch.c` and `server.py`: the two
ends of a launch.
"""
