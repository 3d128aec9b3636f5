"""The rules: every way in which a program can be found wrong, by name.

A finding names its rule; nothing is found that breaks none of these.  The name stays the same from
version to version, unlike the sentence that is said: suppressions, baselines and tests go by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

CAN_CORRUPT = "can corrupt"
"""Grade: on some GPU, in some order, the result is wrong or the program does not end well."""

NO_PROMISE = "no promise"
"""Grade: the PTX ISA promises nothing, and hardware at hand does not mind."""

GRADES = (CAN_CORRUPT, NO_PROMISE)

ENDS = frozenset(
    {"fault", "deadlock", "livelock", "steplimit", "time", "program", "defect", "compile", "launch"}
)
"""Kinds that say how something ended; their sentences do not begin with the kind."""


@dataclass(frozen=True)
class Rule:
    """One way to be wrong.

    ``name``: in kebab case.  ``kind``: the family, with which a finding's text begins.
    ``sentence``: what is wrong.  ``section``: where the PTX ISA says so, or what else does.
    """

    name: str
    kind: str
    sentence: str
    section: str
    grade: str = CAN_CORRUPT

    @property
    def source(self) -> str:
        """Who says so: ``PTX ISA 9.7.13.1``, ``CUDA C++, assert``."""
        return f"PTX ISA {self.section}" if self.section[0].isdigit() else self.section


def _table(rules: Iterable[Rule]) -> dict[str, Rule]:
    return {rule.name: rule for rule in rules}


RULES = _table([
    # -- threads that nothing orders ------------------------------------------
    Rule("race", "race",
         "Two threads touch one place, one of them writes, and nothing orders the two.",
         "8.7, 8.9"),
    Rule("race-equal-stores", "race",
         "Two threads store to one place, nothing orders the two, and what was there stays.",
         "8.7, 8.9", NO_PROMISE),
    Rule("race-beside-atomics", "race",
         "A plain load and an atomic or a volatile store touch one place, and nothing orders "
         "the two.", "8.7, 8.9", NO_PROMISE),
    Rule("race-in-one-store", "race",
         "Threads of one instruction store different values to one place.",
         "CUDA C++, SIMT architecture"),
    Rule("narrow-scope", "race",
         "A block reads what another wrote, and is told of it with .cta scope only.",
         "8.5, 8.8, 9.7.13.15.13"),
    Rule("device-scope", "race",
         "A device reads what another wrote, and is told of it with less than .sys scope.",
         "8.5, 8.8"),
    Rule("mbarrier-invalidated-in-use", "race",
         "A thread invalidates an mbarrier while another may still use it.", "9.7.13.15.10"),
    # -- what nobody wrote ----------------------------------------------------
    Rule("uninitialised-read", "uninitialised",
         "A thread reads memory that nobody has written.", "5.1"),
    Rule("uninitialised-accumulator", "uninitialised",
         "A multiplication adds to registers that nobody has written.", "9.7.15.5.2"),
    Rule("uninitialised-tensor-memory", "uninitialised",
         "Tensor memory is read of which nobody has written all.", "9.7.16.1"),
    # -- barriers of threads --------------------------------------------------
    Rule("divergent-barrier", "barrier",
         "Some threads execute a barrier that is meant for all, others go around and on.",
         "9.7.13.1"),
    Rule("divergent-sync", "barrier",
         "A thread that the mask of a .sync instruction names goes around it.", "9.7.13.2"),
    Rule("wrong-member-mask", "barrier",
         "Threads of a .sync instruction do not give one mask that names them all.",
         "9.7.13.2"),
    Rule("shuffle-from-departed", "barrier",
         "A thread takes the value of a lane that has left, though its mask names that lane.",
         "9.7.9.6"),
    Rule("barrier-misuse", "barrier",
         "Threads use one barrier with two counts, or in two generations at once.",
         "9.7.13.1"),
    # -- mbarriers ------------------------------------------------------------
    Rule("access-to-live-mbarrier", "barrier",
         "Something else than an mbarrier instruction touches an mbarrier that is live.",
         "9.7.13.15.3"),
    Rule("mbarrier-initialised-again", "barrier",
         "Several threads of a warp initialise an mbarrier, which is live after the first.",
         "9.7.13.15.9", NO_PROMISE),
    Rule("mbarrier-phase-unseen", "barrier",
         "A thread arrives in a phase before anyone has seen the one before complete.",
         "9.7.13.15.4"),
    Rule("phase-may-be-missed", "barrier",
         "A thread's wait may come so late that the phase after the one it waits for is over.",
         "9.7.13.15.16"),
    Rule("announced-bytes-missing", "barrier",
         "An mbarrier ends with bytes announced that never came.", "9.7.13.15.5", NO_PROMISE),
    Rule("unannounced-bytes", "barrier",
         "An mbarrier ends with bytes come that nobody announced.", "9.7.13.15.5"),
    Rule("late-expect-tx", "barrier",
         "Bytes are announced when nothing keeps the mbarrier's phase open any more.",
         "9.7.13.15.5"),
    # -- registers of warp groups ---------------------------------------------
    Rule("setmaxnreg-mismatch", "barrier",
         "The threads of a warp group do not all execute the same setmaxnreg.",
         "9.7.19.5"),
    Rule("setmaxnreg-waits-for-ever", "barrier",
         "A warp group asks for registers that nobody gives back.", "9.7.19.5"),
    # -- what goes on while threads do ----------------------------------------
    Rule("missing-copy-wait", "async",
         "A place is used that a cp.async writes, and nobody has waited for the copy.",
         "9.7.9.25.3"),
    Rule("missing-mbarrier-wait", "async",
         "A place is used that a bulk copy writes, by a thread that has not waited for its "
         "mbarrier.", "9.7.9.25.4, 9.7.9.27"),
    Rule("bulk-source-overwritten", "async",
         "A thread writes shared memory that a bulk copy may still read.", "9.7.9.27.2.2"),
    Rule("missing-bulk-wait", "async",
         "A thread uses global memory that a bulk copy may not have written yet.",
         "9.7.9.27.2.2"),
    Rule("tensor-map-changed-in-use", "async",
         "A thread changes a tensor map by which a copy under way may still go.",
         "9.7.9.27.2.2, 9.7.13.15.16"),
    Rule("bulk-in-flight-at-exit", "async",
         "A block leaves while a bulk copy may still read its shared memory.", "5.1.7",
         NO_PROMISE),
    Rule("empty-bulk-group", "async",
         "A bulk group is closed and waited for, and no copy was ever in one.",
         "9.7.9.27.2.1"),
    Rule("missing-wgmma-wait", "async",
         "A register is used that a multiplication under way holds.", "9.7.15.7.3"),
    Rule("missing-wgmma-fence", "async",
         "A multiplication takes registers that threads changed after the last wgmma.fence.",
         "9.7.15.7.1"),
    Rule("wgmma-source-overwritten", "async",
         "A thread writes a tile that a multiplication may still read.", "9.7.15.7.3"),
    Rule("missing-tcgen05-wait", "async",
         "A tcgen05.ld or st may still be under way where its cells are used.",
         "9.7.16.6.4.5, 9.7.16.8.5"),
    Rule("missing-tcgen05-commit", "async",
         "What a tensor operation reads or writes is used before a tcgen05.commit after it was "
         "waited for.", "9.7.16.6, 9.7.16.12.1"),
    Rule("missing-grid-wait", "async",
         "A kernel that may begin early touches what the one before it does, and has not waited "
         "for it.", "9.7.13.13"),
    # -- proxies --------------------------------------------------------------
    Rule("missing-proxy-fence", "proxy",
         "Memory is used through the generic and the async proxy without a fence between.",
         "8.6, 9.7.13.4"),
    Rule("missing-tensormap-fence", "proxy",
         "A copy uses a tensor map that the kernel has changed, without its fences.",
         "9.7.13.4"),
    # -- clusters -------------------------------------------------------------
    Rule("access-to-departed-block", "cluster",
         "A thread reaches into the shared memory of a block that has left.", "5.1.7"),
    Rule("block-leaves-too-early", "cluster",
         "A block may leave while its shared memory is still in use.", "5.1.7"),
    # -- tensor cores ---------------------------------------------------------
    Rule("wrong-descriptor", "descriptor",
         "A descriptor says of a tile what is not so.", "9.7.15.5.1, 9.7.16.4"),
    Rule("misaligned-tile", "tensor",
         "A swizzled tile does not begin where its descriptor says.", "9.7.16.4"),
    Rule("missing-tcgen05-fence", "tensor",
         "A barrier orders two uses of tensor memory without the tcgen05.fence beside it.",
         "9.7.16.11.1"),
    Rule("repeated-tensor-operation", "tensor",
         "Several threads of a warp issue what one is meant to.", "9.7.16.5"),
    Rule("product-over-operand", "tensor",
         "A product writes its sums over its own operands.", "9.7.16.10"),
    Rule("wrong-tensor-quarter", "tensor",
         "A warp names a quarter of tensor memory that is not its own.", "9.7.16.2.3"),
    Rule("generic-shared-address", "tensor",
         "A commit gets an address of another space than it says.", "9.7.16.12.1",
         NO_PROMISE),
    Rule("reserved-descriptor-bit", "tensor",
         "A product's instruction descriptor has a bit set that must be 0.", "9.7.16.4.2",
         NO_PROMISE),
    Rule("tensor-memory-grows", "tensor",
         "A block asks for more columns of tensor memory than it asked for before.",
         "9.7.16.7.1"),
    Rule("tensor-memory-hold-and-wait", "tensor",
         "Two blocks on a multiprocessor may each hold the columns that the other waits for.",
         "9.7.16.7.1"),
    Rule("tensor-memory-pair-freed-early", "tensor",
         "A block gives back tensor memory of a pair before the other is known to have it.",
         "9.7.16.7.1"),
    Rule("tensor-memory-pair-peer-unknown", "tensor",
         "A block allocates tensor memory of a pair before it knows that the other block runs.",
         "9.7.16.7.1"),
    Rule("tensor-memory-leak", "tensor",
         "A block leaves with tensor memory allocated.", "9.7.16.7.1"),
    # -- how a kernel ends ----------------------------------------------------
    Rule("no-peer-access", "fault",
         "A kernel touches the memory of another device, which its own may not reach.",
         "CUDA C++, peer-to-peer memory access"),
    Rule("out-of-bounds", "fault",
         "An access lies outside of every array, or runs past the end of one.", "5.1"),
    Rule("use-after-free", "fault",
         "An access reaches memory that was given back.", "5.1"),
    Rule("misaligned-access", "fault",
         "An address is no multiple of the width of its access.", "6.4.1"),
    Rule("stack-overflow", "fault",
         "A recursion needs more stack than a thread has.", "cudaLimitStackSize"),
    Rule("invalid-free", "fault",
         "A kernel frees what it was not given, or frees it twice.",
         "CUDA C++, dynamic allocation; 9.7.16.7.1"),
    Rule("illegal-metadata", "fault",
         "Metadata of a sparse matrix put two elements at one place, or out of order.",
         "9.7.14.6.1, 9.7.15.6.1, 9.7.16.10.8"),
    Rule("too-many-arrivals", "fault",
         "Threads arrive at an mbarrier more often in one phase than it expects.",
         "9.7.13.15.2"),
    Rule("uninitialised-mbarrier", "fault",
         "An mbarrier is used that nobody has initialised.", "9.7.13.15.3"),
    Rule("mbarrier-fault", "fault",
         "An mbarrier gets an arrival or a wait that its state does not allow.", "9.7.13.15"),
    Rule("trap", "fault", "The kernel executes trap.", "9.7.19.4"),
    Rule("assertion", "fault", "An assert of the kernel does not hold.", "CUDA C++, assert"),
    Rule("invalid-operation", "fault",
         "An instruction gets operands that the PTX ISA does not allow.",
         "the section of the instruction"),
    Rule("deadlock", "deadlock",
         "Every thread waits, and nothing is left that could wake one.", "9.7.13"),
    Rule("livelock", "livelock",
         "Every thread spins or waits, and nothing is left that could change what it looks at.",
         "9.7.13"),
    Rule("step-limit", "steplimit",
         "A kernel takes more turns of loops than its launch allows.", "phasebit"),
    Rule("time-limit", "time",
         "A kernel was running when the program's time was up.", "phasebit"),
    # -- what is no kernel's doing --------------------------------------------
    Rule("refused-launch", "launch",
         "A launch cannot begin: its extents, its arguments or its shared memory.",
         "CUDA C++, execution configuration"),
    Rule("invalid-ptx", "compile", "A program has code that cannot be read or executed here.",
         "the section of the instruction"),
    Rule("invalid-copy", "program",
         "The host copies or fills bytes that are in no allocation.", "cudaMemcpy"),
    Rule("invalid-tensor-map", "program",
         "The host describes a tensor map that cannot be.", "cuTensorMapEncodeTiled"),
    Rule("program", "program",
         "The program cannot be run, or asks the runtime for what it does not have.",
         "phasebit"),
    Rule("defect", "defect", "The emulator itself failed.", "phasebit"),
])  # fmt: skip
"""Name -> rule."""


def rule(name: str) -> Rule:
    """The rule of this name. Raises ValueError for one that is none."""
    if name not in RULES:
        raise ValueError(f"{name!r} is no rule: `python -m phasebit rules` lists them")
    return RULES[name]


def listing() -> str:
    """Every rule: name, grade, what is wrong.

    >>> print(listing().splitlines()[1][:80])
    race                         can corrupt  Two threads touch one place, one of th
    """
    lines = [f"{'rule':<28} {'grade':<12} what is wrong"]
    lines += [f"{each.name:<28} {each.grade:<12} {each.sentence}" for each in RULES.values()]
    return "\n".join(lines)


def describe(name: str) -> str:
    """One rule, in lines. Raises ValueError for a name that is none.

    >>> print(describe("divergent-barrier"))
    divergent-barrier (barrier, can corrupt)
    Some threads execute a barrier that is meant for all, others go around and on.
    PTX ISA 9.7.13.1
    """
    known = rule(name)
    return f"{name} ({known.kind}, {known.grade})\n{known.sentence}\n{known.source}"


__all__ = [
    "CAN_CORRUPT",
    "ENDS",
    "GRADES",
    "NO_PROMISE",
    "RULES",
    "Rule",
    "describe",
    "listing",
    "rule",
]
