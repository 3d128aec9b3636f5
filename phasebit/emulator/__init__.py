"""A GPU that one can read: PTX executed in Python and NumPy.

    from phasebit.emulator import Module
    run = Module(ptx_text)["matmul"].launch(grid=1, block=512, args=[A, B, C, 4096])
    run.counters, run.findings

It needs NumPy, :mod:`phasebit.mbarrier`, and nothing else of the book. What a program may use:

===========================  ====================================================
``Module`` ``Kernel``        PTX text, read; a kernel of it, which is launched
``Instruction``              one of the instructions of ``Kernel.function.body``
``Run``                      what a launch did: counters, findings, output, a trace
``Mode`` ``Extents``         how a launch is executed, and where it is spread
``Extent`` ``MAX_STEPS``     one to three numbers; turns of loops, if none are given
``Schedule`` ``SCHEDULES``   in which order the warps' steps are taken: a name of it; all names
``Execution``                a launch that is ready to run, for who needs to look inside
``Together`` ``Seat``        launches that run at the same time, on one device or several
``EVERY_DEVICE``             whose memory it is that all devices have
``DeviceArrays``             where the arrays of a launch go; ``refuse_written``: what follows
                             where a kernel wrote one that is read-only
``TensorMap``                an argument that the copy engine reads; module ``tensormap``
``Memory`` ``Allocation``    the emulator's memory; ``GLOBAL_BASE`` and ``GRANULE`` of it
``FreedBy`` ``REMEMBERED``   who freed memory; of how many allocations that is kept in mind
``FROM_MALLOC``              the name of what kernels allocate
``Counters`` ``Trace``       of a run
``Access`` ``ABSENT``        a load or a store of a warp; a lane that takes no part
``Finding``                  what the checker found; module ``findings``
``rulebook``                 the rules that a finding may name
``digest``                   many findings in few words
``EmulatorError``            every error: ``PtxError``, ``LaunchError``, ``Fault``,
                             ``Deadlock``, ``Livelock``, ``StepLimit``, ``Defect``, and
                             ``Found``: of ``raises=True``, when there are findings
``observing``                subscribes to what launches do meanwhile: a ``LaunchObserver``,
                             ``AccessObserver``, ``MbarrierObserver``, ``TensorObserver``,
                             ``BlockBarrierObserver``, ``BulkCopyObserver``,
                             ``ClusterObserver``, ``ThreadCopyObserver`` or ``WarpGroupObserver``
``demangle`` ``readable``    a name of C++, whole and its last part
``capabilities``             what a GPU of each compute capability has
``formats``                  number formats: bits to numbers and back
``sub_byte``                 numbers of four and six bits, where tensor cores look for them
``fragments``                which thread of a warp holds which element of a matrix
``swizzle``                  how the copy engine permutes addresses
``matrix_descriptors``       the 64 bits that tell a tensor core where a matrix lies
``instruction_descriptors``  the 32 bits that tell ``tcgen05.mma`` what to compute
``scaled_descriptors``       the same, for products with block scales
``descriptor_words``         any of the three, in words
``sparse``                   a matrix of which half is zero and left out, and its metadata
``tensor_metadata``          where such metadata lie in tensor memory
``block_scales``             scales of 16 or 32 numbers each: their types, and where they lie
``tcgen05_access``           which register of which thread holds which cell of tensor memory
``arithmetic``               how a tensor core adds: every bit of a product
``traffic``                  sectors and banks that an access touches
``listing``                  the instructions it knows
``saved_program``            a kernel's translation as bytes, for a cache
``every_order``              a launch in every order of its steps that makes a difference:
                             ``Interleavings``, the ``Failing`` one; ``searched``: with the
                             first run; ``search``: the same of ``Stepped`` executions;
                             ``search_limits``: how far it goes
===========================  ====================================================

All else is inside, and changes without notice. The appendix of the book opens it up: which of
its cells look at what stands in ``tests/emulator/test_standalone.py``.

Inside, each folder uses only those above it.

=================  ==============================================================
``capabilities``   what a GPU of each compute capability has
``ptx``            text to data: lexer, reader, syntax, types, the table of instructions
``numbers``        formats, exact rounding, fragments, swizzles
``machine``        memory, groups of threads, barriers, clusters; the scheduler
``copy_engine``    bulk copies, and boxes of tensors
``tensor_core``    ``wgmma`` and ``tcgen05``: arithmetic, tensor memory, descriptors
``ops``            the instructions, a module a family
``codegen``        from basic blocks to Python functions
``checker``        who watches: bounds, races, proxies, tensor memory, memory traffic
``api``            Module, Kernel, Run: a launch
``interleavings``  a launch in every order of its steps
=================  ==============================================================

How a kernel is run, two choices of ``Kernel.launch`` that do not depend on each other:

=================  =============================================================
``check=True``     the default: every address within its array and aligned, races,
                   use before initialisation, misused barriers; counters of memory
                   traffic; a timeline
``check=False``    none of these: only what the kernel computes, and counters of
                   instructions.  Most of the difference in time is a few NumPy calls
                   for each access and each barrier, so it is large where a kernel
                   synchronises often and small where it computes
``exact=True``     the default: the bits that hardware gives
``exact=False``    f32 ``add``, ``sub``, ``mul`` and ``fma`` to nearest as NumPy has
                   them: a multiply-add rounds twice, a NaN keeps its own bits.  An
                   exact ``fma`` takes several times as long as this one
=================  =============================================================

Who wants to know what a launch does listens to its events (``machine.events``), as the checker
does: an object that overrides methods of :class:`LaunchObserver`, :class:`AccessObserver`,
:class:`MbarrierObserver` or :class:`TensorObserver` hears of every launch within
``with observing(it):``.

The cost of a NumPy call hardly depends on the number of threads up to some thousands, so
wide groups are cheap: large blocks, many blocks, warps that stay together.  Blocks are
run several at a time, fewer when checked (``machine.launch_state.STACKED``).  ``make bench``
prints the speed of each mode on your machine.

The memory of a launch does not grow with its grid: blocks are made when there is room for them,
and no more are there at once than 192 multiprocessors of the target hold, which is more than any
GPU has.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from phasebit.emulator import capabilities as capabilities
    from phasebit.emulator import digest as digest
    from phasebit.emulator import findings as findings
    from phasebit.emulator import rulebook as rulebook
    from phasebit.emulator.api.arguments import DeviceArrays, refuse_written
    from phasebit.emulator.api.execution import MAX_STEPS, SCHEDULES, Execution, Mode, Run, Schedule
    from phasebit.emulator.api.extents import Extent, Extents
    from phasebit.emulator.api.kernel import Kernel
    from phasebit.emulator.api.module import Module
    from phasebit.emulator.api.together import Together
    from phasebit.emulator.checker import traffic
    from phasebit.emulator.codegen import saved_program
    from phasebit.emulator.copy_engine import tensormap
    from phasebit.emulator.copy_engine.copy_observer import BulkCopyObserver, ThreadCopyObserver
    from phasebit.emulator.copy_engine.tensormap import TensorMap
    from phasebit.emulator.errors import (
        Deadlock,
        Defect,
        EmulatorError,
        Fault,
        Found,
        LaunchError,
        Livelock,
        PtxError,
        StepLimit,
    )
    from phasebit.emulator.findings import Finding
    from phasebit.emulator.interleavings import limits as search_limits
    from phasebit.emulator.interleavings.searching import (
        Failing,
        Interleavings,
        Stepped,
        every_order,
        search,
        searched,
    )
    from phasebit.emulator.machine.accesses import ABSENT, Access
    from phasebit.emulator.machine.barrier_sites import MbarrierObserver
    from phasebit.emulator.machine.cluster import ClusterObserver
    from phasebit.emulator.machine.company import Seat
    from phasebit.emulator.machine.counters import Counters
    from phasebit.emulator.machine.device_memory import (
        EVERY_DEVICE,
        FROM_MALLOC,
        GRANULE,
        REMEMBERED,
        Allocation,
        FreedBy,
        Memory,
    )
    from phasebit.emulator.machine.events import observing
    from phasebit.emulator.machine.group import AccessObserver
    from phasebit.emulator.machine.launch_observer import LaunchObserver
    from phasebit.emulator.machine.named_barriers import BlockBarrierObserver
    from phasebit.emulator.machine.trace import Trace
    from phasebit.emulator.numbers import formats, fragments, swizzle
    from phasebit.emulator.ops import listing
    from phasebit.emulator.ptx.mangling import demangle, readable
    from phasebit.emulator.ptx.placement import GLOBAL_BASE
    from phasebit.emulator.ptx.syntax import Instruction
    from phasebit.emulator.tensor_core import (
        arithmetic,
        descriptor_words,
        instruction_descriptors,
        matrix_descriptors,
    )
    from phasebit.emulator.tensor_core.tensor_observer import TensorObserver
    from phasebit.emulator.tensor_core.warpgroups import WarpGroupObserver

_NAMES = {
    "api.arguments": ("DeviceArrays", "refuse_written"),
    "api.execution": ("MAX_STEPS", "SCHEDULES", "Execution", "Mode", "Run", "Schedule"),
    "api.extents": ("Extent", "Extents"),
    "api.kernel": ("Kernel",),
    "api.module": ("Module",),
    "api.together": ("Together",),
    "copy_engine.copy_observer": ("BulkCopyObserver", "ThreadCopyObserver"),
    "copy_engine.tensormap": ("TensorMap",),
    "errors": (
        "Deadlock", "Defect", "EmulatorError", "Fault", "Found", "LaunchError", "Livelock",
        "PtxError", "StepLimit",
    ),
    "findings": ("Finding",),
    "interleavings.searching": (
        "Failing", "Interleavings", "Stepped", "every_order", "search", "searched",
    ),
    "machine.accesses": ("ABSENT", "Access"),
    "machine.barrier_sites": ("MbarrierObserver",),
    "machine.counters": ("Counters",),
    "machine.cluster": ("ClusterObserver",),
    "machine.company": ("Seat",),
    "machine.device_memory": (
        "EVERY_DEVICE", "FROM_MALLOC", "GRANULE", "REMEMBERED", "Allocation", "FreedBy", "Memory",
    ),
    "machine.events": ("observing",),
    "machine.group": ("AccessObserver",),
    "machine.launch_observer": ("LaunchObserver",),
    "machine.named_barriers": ("BlockBarrierObserver",),
    "machine.trace": ("Trace",),
    "ptx.mangling": ("demangle", "readable"),
    "ptx.placement": ("GLOBAL_BASE",),
    "ptx.syntax": ("Instruction",),
    "tensor_core.tensor_observer": ("TensorObserver",),
    "tensor_core.warpgroups": ("WarpGroupObserver",),
}  # fmt: skip
"""Module -> what is public of it. It is imported on first use, so that a program which needs the
errors alone does not wait for the instructions."""

_MODULES = {
    "capabilities": "capabilities",
    "digest": "digest",
    "findings": "findings",
    "rulebook": "rulebook",
    "arithmetic": "tensor_core.arithmetic",
    "block_scales": "tensor_core.block_scales",
    "descriptor_words": "tensor_core.descriptor_words",
    "formats": "numbers.formats",
    "fragments": "numbers.fragments",
    "instruction_descriptors": "tensor_core.instruction_descriptors",
    "listing": "ops.listing",
    "matrix_descriptors": "tensor_core.matrix_descriptors",
    "saved_program": "codegen.saved_program",
    "search_limits": "interleavings.limits",
    "scaled_descriptors": "tensor_core.scaled_descriptors",
    "sparse": "numbers.sparse",
    "sub_byte": "numbers.sub_byte",
    "swizzle": "numbers.swizzle",
    "tcgen05_access": "ops.tcgen05_access",
    "tensor_metadata": "tensor_core.tensor_metadata",
    "tensormap": "copy_engine.tensormap",
    "traffic": "checker.traffic",
}
"""Public module -> where it is."""

_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "ABSENT",
    "EVERY_DEVICE",
    "FROM_MALLOC",
    "GLOBAL_BASE",
    "GRANULE",
    "MAX_STEPS",
    "REMEMBERED",
    "SCHEDULES",
    "Access",
    "AccessObserver",
    "Allocation",
    "BlockBarrierObserver",
    "BulkCopyObserver",
    "ClusterObserver",
    "Counters",
    "Deadlock",
    "Defect",
    "DeviceArrays",
    "EmulatorError",
    "Execution",
    "Extent",
    "Extents",
    "Failing",
    "Fault",
    "Finding",
    "Found",
    "FreedBy",
    "Instruction",
    "Interleavings",
    "Kernel",
    "LaunchError",
    "LaunchObserver",
    "Livelock",
    "MbarrierObserver",
    "Memory",
    "Mode",
    "Module",
    "PtxError",
    "Run",
    "Schedule",
    "Seat",
    "StepLimit",
    "Stepped",
    "TensorMap",
    "TensorObserver",
    "ThreadCopyObserver",
    "Together",
    "Trace",
    "WarpGroupObserver",
    "arithmetic",
    "block_scales",
    "capabilities",
    "demangle",
    "descriptor_words",
    "digest",
    "every_order",
    "findings",
    "formats",
    "fragments",
    "instruction_descriptors",
    "listing",
    "matrix_descriptors",
    "observing",
    "readable",
    "refuse_written",
    "rulebook",
    "saved_program",
    "scaled_descriptors",
    "search",
    "search_limits",
    "searched",
    "sparse",
    "sub_byte",
    "swizzle",
    "tcgen05_access",
    "tensor_metadata",
    "tensormap",
    "traffic",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{_MODULES[name]}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
