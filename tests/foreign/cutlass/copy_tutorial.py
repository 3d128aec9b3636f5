# mypy: ignore-errors
"""The copy of CuTe DSL's tutorial `tma_v0.py`, of 256 rows by 128 columns; its path is given.

The tutorial's own `main` draws its numbers and takes times by PyTorch, which the kernel does not
need.  Prints `right` or `wrong: 3 of 32768`.
"""

import sys

import numpy as np
from cutlass.cute.runtime import from_dlpack

from tests.foreign.cutlass.loading import load

given = (np.arange(256 * 128) % 1009).astype(np.float16).reshape(256, 128)
copied = np.full_like(given, np.nan)
copy = load(sys.argv[1]).Sm100SimpleCopyKernel()
copy(*(from_dlpack(array, assumed_align=16) for array in (given, copied)))
wrong = np.count_nonzero(given != copied)
print(f"wrong: {wrong} of {given.size}" if wrong else "right")
