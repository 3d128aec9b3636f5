"""What becomes of the kernel without each of its synchronisation instructions."""

from __future__ import annotations

import sys

from tests.foreign.deleted import TARGETS, Attention

for target in sys.argv[1:] or TARGETS:
    kernel = Attention(target)
    for each in kernel.deletions:
        said = kernel.without(each) or "silent"
        print(f"{target} {each.line:>5} {each.instruction[:70]:<70} {said}", flush=True)
