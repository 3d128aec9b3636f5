"""compute-sanitizer's memcheck, on this machine's GPU."""

from phasebit.score.on_a_gpu import Sanitizer

_SANITIZER = Sanitizer("memcheck")
TITLE, version, runs, look = _SANITIZER.parts()
