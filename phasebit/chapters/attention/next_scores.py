"""Kernel f where the first scores of the next tile begin before the output of this one is stored.

Between two tiles of the output a group waits for its last product, stores, waits for the next
scores and makes their softmax, with nothing beside it. Here the next scores are multiplied while
the group stores. A group whose next tile begins with hidden tiles does as before: to wait for those
it must first give back its last tile of V.
"""

from __future__ import annotations

from phasebit.chapters.attention import attend
from phasebit.chapters.attention.rungs import Edits
from phasebit.edits import replace_each

NAME = "next scores before the store"
EXPECTED = "faster where sequences are short: the store lies beside a product"

_ARRAYS = "        float o[D / 2] = {}, scores[KEYS / 2] = {}, shrink[2];\n"
_TASKS = "    for (Place<TASKS> t;; t.advance()) {\n"
_FIRST = (
    "        ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);\n        ptx::wgmma_fence();\n"
    "        begin_scores<D, 64, KEYS>(scores, q, s.k[k.slot]);\n"
)
_LAST = (
    "        begin_output<D, KEYS>(o, p, s.v[v.slot]);\n        ptx::wgmma_wait_group<0>();\n"
    "        settle(o);\n"
)
_FINISH = """\
        release(&s.v_empty[v.slot]);
        v.advance();
        float inverse[2];
        softmax.invert(inverse);
        rescale(o, inverse);
        store_wide(o, task.O, row, task.shape.queries, task.stride);
        __syncwarp();
        release(&s.q_empty[t.slot]);  // the task, too, has been read
"""
_FINISHED = _FINISH.replace("        ", "            ")
_NEXT = f"""\
        begin_output<D, KEYS>(o, p, s.v[v.slot]);
        const auto finish = [&] {{  // its output is complete
            settle(o);
{_FINISHED}        }};
        Place<TASKS> next = t;
        next.advance();
        ptx::mbarrier_wait(&s.q_full[next.slot], next.phase);
        const Task& then = s.tasks[next.slot];
        begun = then.tiles != 0 && then.seen<CAUSAL>(then.row + 64 * group) == then.tiles;
        if (begun) {{
            ptx::mbarrier_wait(&s.k_full[k.slot], k.phase);
            settle(scores);
            ptx::wgmma_fence();
            begin_scores<D, 64, KEYS>(scores, &s.q[next.slot][group * 64 * D], s.k[k.slot]);
            ptx::wgmma_wait_group<1>();
            finish();  // in both branches, or the scores would be waited for before it
        }} else {{
            ptx::wgmma_wait_group<0>();
            finish();
        }}
"""
EDITS: Edits = (
    (_TASKS + _ARRAYS,
     "    bool begun = false;  // the first scores of the next task\n"
     f"    float scores[KEYS / 2] = {{}};\n{_TASKS}        float o[D / 2] = {{}}, shrink[2];\n"),
    ("int hidden = task.tiles - seen;", "int hidden = begun ? 0 : task.tiles - seen;"),
    (_FIRST + "        ptx::wgmma_wait", "        if (!begun) {\n" + "".join(
        f"    {line}\n" for line in _FIRST.splitlines()) + "        }\n        ptx::wgmma_wait"),
    (_LAST + _FINISH, _NEXT),
)  # fmt: skip


def text() -> str:
    """The whole program."""
    return replace_each(attend.flat(attend.DYNAMIC), EDITS, NAME)
