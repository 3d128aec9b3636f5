"""compute-sanitizer's initcheck, on this machine's GPU."""

from phasebit.score.on_a_gpu import Sanitizer

_SANITIZER = Sanitizer("initcheck")
TITLE, version, runs, look = _SANITIZER.parts()
