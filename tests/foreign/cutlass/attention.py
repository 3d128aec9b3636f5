# mypy: ignore-errors
"""CuTe DSL's attention for Blackwell, forward, of 256 queries and 512 keys; its path is given.

Every sum is corrected when its maximum changes, without a threshold.  Prints `right`, or by how
many times the tolerance the result is off.
"""

import sys

from phasebit.chapters.attention_again import cutlass_fmha, role_counts
from phasebit.chapters.attention_again import tensor_attention as kernels
from tests.foreign.cutlass.loading import load

data = kernels.draw(role_counts.SHAPE)
out = cutlass_fmha.attend(load(sys.argv[1]), data, share=False)
off = kernels.off(role_counts.SHAPE, data, out)
print("right" if off <= 1 else f"wrong: {off:.3g} times the tolerance")
