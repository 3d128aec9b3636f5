"""compute-sanitizer's synccheck, on this machine's GPU."""

from phasebit.score.on_a_gpu import Sanitizer

_SANITIZER = Sanitizer("synccheck")
TITLE, version, runs, look = _SANITIZER.parts()
