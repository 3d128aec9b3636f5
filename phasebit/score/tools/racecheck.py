"""compute-sanitizer's racecheck, on this machine's GPU."""

from phasebit.score.on_a_gpu import Sanitizer

_SANITIZER = Sanitizer("racecheck")
TITLE, version, runs, look = _SANITIZER.parts()
