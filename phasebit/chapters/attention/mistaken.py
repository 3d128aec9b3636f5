"""Slips that people make in the kernels of *Attention*: a change each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from phasebit import measure
from phasebit.chapters.attention import attend
from phasebit.edits import replace_once
from phasebit.emulator import Schedule

D = 64
"""Columns of a head in the runs."""


class Slip(NamedTuple):
    """What somebody wrote in place of what is right."""

    kernel: str
    right: str
    wrong: str
    says: str
    """What the emulator must say, as a regular expression.

    ``WRONG`` for a wrong result, nothing for a slip that is silent.
    """
    causal: bool = True

    @property
    def text(self) -> str:
        """The kernel with the slip, its header in it."""
        return replace_once(attend.flat(self.kernel), self.right, self.wrong)


_A, _B, _C, _D, _E, _F, _G = attend.KERNELS
_K_FREE = "        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.k_empty[k.slot]);\n"
_V_FREE = "        if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.v_empty[v.slot]);\n"

_BEHIND_SCORES = """        ptx::mbarrier_wait(&s.v_full[v.slot], v.phase);
        settle(o);
        settle(p);
        ptx::wgmma_fence();
        begin_output<D, KEYS<D, LONG>>(o, p, s.v[v.slot]);  // of the one before
        give_turn<D, LONG>(group);
        ptx::wgmma_wait_group<1>();
        settle(scores);
"""

_TASK_FREE = """        __syncwarp();
        release(&s.q_empty[t.slot]);  // the task, too, has been read
"""
_STORED = "        store_wide(o, task.O, row, task.shape.queries, task.stride);\n"


def _indented(text: str) -> str:
    """Lines of kernel f as they stand in kernel g's ``finish``."""
    return "".join(f"    {line}\n" for line in text.splitlines())


def _in_c(text: str) -> str:
    """Lines of kernel d as kernel c has them."""
    return text.replace("KEYS<D, LONG>", "KEYS").replace("turn<D, LONG>", "turn")


SLIPS = {
    "a slot of V is free before its product is complete": Slip(
        _C, "        ptx::wgmma_wait_group<0>();\n        settle(o);\n" + _V_FREE,
        _V_FREE + "        ptx::wgmma_wait_group<0>();\n        settle(o);\n",
        "async|race"),
    "a slot of K is free once its product has begun": Slip(
        _D, _BEHIND_SCORES + _K_FREE, _K_FREE + _BEHIND_SCORES, "async|race"),
    "the same where one producer asks for K and V in turn": Slip(
        _C, _in_c(_BEHIND_SCORES + _K_FREE), _in_c(_K_FREE + _BEHIND_SCORES), ""),
    "a slot is free when one group of two has read it": Slip(
        _B, "&s.k_empty[slot], CONSUMERS / 32);", "&s.k_empty[slot], 128 / 32);",
        "async|race|pending|seen|WRONG"),
    "the softmax reads scores that are not complete": Slip(
        _C, "        ptx::wgmma_wait_group<1>();\n        settle(scores);\n",
        "        settle(scores);\n", "async"),
    "the output is rescaled while its product runs": Slip(
        _C, "        ptx::wgmma_wait_group<0>();\n        settle(o);\n" + _V_FREE
        + "        rescale(o, shrink);\n",
        "        rescale(o, shrink);\n        ptx::wgmma_wait_group<0>();\n        settle(o);\n"
        + _V_FREE, "async"),
    "the producer waits for the wrong phase": Slip(
        _A, "&s.v_empty[at.slot], !at.phase", "&s.v_empty[at.slot], at.phase", "deadlock"),
    "nobody gives group 0 its first turn": Slip(
        _B, "    if (group == GROUPS - 1) give_turn(group);  // group 0 begins\n", "",
        "deadlock"),
    "the named barriers are missing": Slip(
        _B, "{ ptx::bar_sync(1 + group, 2 * 128); }\n__device__ void give_turn(int group) "
        "{ ptx::bar_arrive(1 + (group + 1) % GROUPS, 2 * 128); }",
        "{}\n__device__ void give_turn(int group) {}", ""),
    "the queries are free before the last scores": Slip(
        _D, "    ptx::mbarrier_wait(&s.q_full[group], phase);\n",
        "    ptx::mbarrier_wait(&s.q_full[group], phase);\n"
        "    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&s.q_empty[group]);\n",
        "async|race|pending|seen|WRONG|deadlock"),
    "the output is not rescaled": Slip(
        _A, "        rescale(o, shrink);\n", "", "WRONG"),
    "the sum is not rescaled": Slip(_A, "            sum[h] *= shrink[h];\n", "", "WRONG"),
    "each lane has its own maximum": Slip(
        _A, "            most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));\n"
        "            most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));\n", "", "WRONG"),
    "the diagonal is masked, too": Slip(
        _A, "min(seen[h], q + 8 * h + 1 + shift - first)",
        "min(seen[h], q + 8 * h + shift - first)", "WRONG"),
    "both rows of a thread are masked as the first": Slip(
        _A, "min(seen[h], q + 8 * h + 1 + shift - first)",
        "min(seen[h], q + 1 + shift - first)", "WRONG"),
    "a row that sees no key subtracts infinities": Slip(
        _A, "most == -INFINITY ? 0 : most * factor", "most * factor", "WRONG"),
    "the probabilities' registers are in another order": Slip(
        _A, "p[i / 4][i % 4] = ", "p[i / 4][(i % 2) * 2 + i / 2 % 2] = ", "WRONG"),
    "keys past the last one are not masked": Slip(
        _A, "seen[h] = shape.keys - first;", "seen[h] = KEYS;", "WRONG", causal=False),
    "four groups: a slot of V is free before its product is complete": Slip(
        _E, "        ptx::wgmma_wait_group<0>();\n        settle(o);\n" + _V_FREE,
        _V_FREE + "        ptx::wgmma_wait_group<0>();\n        settle(o);\n", "async|race"),
    "four groups: a slot is free when one of them has read it": Slip(
        _E, "&s.k_empty[slot], CONSUMERS<D> / 32);", "&s.k_empty[slot], 128 / 32);",
        "async|race|pending|seen|WRONG"),
    "the maximum is looked for in scores that are not complete": Slip(
        _E, "        ptx::wgmma_wait_group<1>();\n        settle(scores);\n",
        "        settle(scores);\n", "async"),
    "only the tiles of the loop are masked": Slip(
        _E, "    mask_tile<CAUSAL, KEYS>(scores, shape, row, tiles - 1);\n", "", "WRONG"),
    "the top moves, and the sum does not": Slip(
        _E, "            sum[h] *= shrink[h];\n            const float room",
        "            const float room", "WRONG"),
    "the task is free before its output is stored": Slip(
        _F, _STORED + _TASK_FREE, _TASK_FREE + _STORED, "race"),
    "the task is free once its queries have come": Slip(
        _F, "        if (task.tiles == 0) return;\n",
        "        if (task.tiles == 0) return;\n        release(&s.q_empty[t.slot]);\n",
        "async|race|pending|WRONG"),
    "the counter wraps one too late": Slip(
        _F, "atomicInc(counter, units - 1)", "atomicInc(counter, units)", "WRONG"),
    "a tile with a hidden key counts as seen whole": Slip(
        _F, "task.shape.keys - task.shape.queries) / KEYS : 0;",
        "task.shape.keys - task.shape.queries) / KEYS + 1 : 0;", "WRONG"),
    "a group keeps the slots of tiles that it does not see": Slip(
        _F, "            release(&s.v_empty[v.slot]);\n        }\n", "        }\n", "deadlock"),
    "nobody is told that there is no more to do": Slip(
        _F, "    s.tasks[t.slot].tiles = 0;\n    ptx::mbarrier_arrive(&s.q_full[t.slot]);\n",
        "    s.tasks[t.slot].tiles = 0;\n", "deadlock"),
    "the output is stored while its product runs": Slip(
        _G, "            ptx::wgmma_wait_group<1>();\n            finish();",
        "            finish();", "async"),
    "the task is free before its output is stored, the next scores begun": Slip(
        _G, _indented(_STORED + _TASK_FREE), _indented(_TASK_FREE + _STORED), "race"),
    "the next queries are not waited for": Slip(
        _G, "        ptx::mbarrier_wait(&s.q_full[next.slot], next.phase);\n", "",
        "async|race|pending|WRONG|deadlock"),
    "the end is written over a task": Slip(
        _F, "    if (!copies) return;\n    ptx::mbarrier_wait(&s.q_empty[t.slot], !t.phase);\n",
        "    if (!copies) return;\n", "race|pending|deadlock|WRONG"),
}  # fmt: skip
"""What the slip is -> the slip."""


def verdicts(names: Iterable[str], schedule: Schedule = "late") -> dict[str, str]:
    """All that the emulator says of each, and ``WRONG`` where the result is.

    Of kernel a: 140 queries and 131 keys, so that causal nine queries see no key. Of the others: 64
    queries and 520 keys, so that slots are used again. Of the last: four tasks of two tiles, so
    that those of tasks are, too; of four groups only one has queries. Large scores move the top of
    the last two.
    """
    from phasebit.emulator import EmulatorError

    wanted = list(names)
    said = {}
    for causal in (True, False):
        texts = {name: SLIPS[name].text for name in wanted if SLIPS[name].causal == causal}
        program = attend.Programs(texts, (D, causal)) if texts else None
        for name in texts:
            assert program is not None
            h = attend.heads(D, 64, 520, layers=2, sharing=2)
            if SLIPS[name].kernel == attend.ONE_GROUP:
                h = attend.heads(D, 140, 131)
            elif SLIPS[name].kernel == attend.LEAN:
                h = attend.heads(D, 64, 520, layers=2, sharing=2, spread=8)
            elif SLIPS[name].kernel in (attend.DYNAMIC, attend.NEXT):
                h = attend.heads(D, 64, 100, layers=4, sharing=2, spread=8)
            try:
                done = program.attend(name, h, causal, schedule=schedule, blocks=1)
            except EmulatorError as error:
                said[name] = "\n".join([str(error), *map(str, error.findings)])
            else:
                wrong = ["WRONG"] * (done.error > 1)
                said[name] = "\n".join([*map(str, done.run.findings), *wrong])
    return {name: said[name] for name in wanted}


def table(names: Iterable[str]) -> measure.Table:
    """What the emulator says of some slips in a few words, and what became of the result."""
    rows = []
    for name, said in verdicts(names).items():
        kind = said.partition(":")[0]
        result = "wrong" if said.endswith("WRONG") else "none" if kind == "deadlock" else "right"
        rows.append((name, _WORDS.get(kind, "nothing"), result))
    return measure.Table(
        ("slip", "the emulator says", "result"), tuple(rows),
        "on the emulator, with copies and products as late as they may be",
    )  # fmt: skip


_WORDS = {
    "race": "race: nothing orders the two",
    "async": "async: not waited for",
    "deadlock": "deadlock",
    "barrier": "barrier: nobody has seen the phase before",
}
