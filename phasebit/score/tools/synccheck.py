"""compute-sanitizer's synccheck, on this machine's GPU."""

from phasebit.score import on_a_gpu

AT_A_TIME = on_a_gpu.AT_A_TIME
TITLE, version, runs, look = on_a_gpu.Sanitizer("synccheck").parts()
