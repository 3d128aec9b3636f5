"""Loop nests: written in one line, transformed, run by the processor, watched by the caches.

    nest = nests.parse("C[i][j] += A[k][l][i] * B[l][k][j]", i=50, j=60, k=80, l=100)
    packed = nest.pack("A", depth=1)        # A's part for one i, copied into one piece
    packed.source()                         # the C++ that is compiled
    nests.build(packed).watch(arrays)       # what caches and TLBs say

:mod:`~phasebit.nests.loops` is the nest and its transformations, :mod:`~phasebit.nests.source`
writes C++, :mod:`~phasebit.nests.compiled` compiles, runs and watches it.
"""

from phasebit.nests.compiled import Program, build
from phasebit.nests.loops import Affine, Level, Nest, Pack, Reference, parse

__all__ = ["Affine", "Level", "Nest", "Pack", "Program", "Reference", "build", "parse"]
