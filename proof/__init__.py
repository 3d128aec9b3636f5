"""The proof of the emulator: the same programs on a GPU and here, the same bits.

An emulator is right when nobody can tell it from the machine.  So this package
writes tens of thousands of small PTX programs, runs each on a GPU, runs each
here, and compares every bit of every answer:

============== ==================================================================
``dice``       a counter-based random source: one seed, the same programs anywhere
``values``     the numbers worth trying: NaNs, denormals, overflows, all-ones
``program``    a program: its PTX text, its inputs, how its answers are judged
``forms``      one instruction a program, for every form of every instruction
``machine``    memory, atomics, warps, barriers, tensor cores: programs of a block
``additions``  what came after the first recording
``warpgroups`` wgmma: every shape and type, tiles anywhere, the rounding
``sparse``     wgmma with a sparse A
``sums``       mma.sync and mma.sp on ``numbers`` that show how a tensor core rounds
``copies``     bulk copies and reductions, clusters, mbarriers of other blocks
``boxes``      tensor maps: every rank, type and swizzle, over every edge, in every direction
``encodes``    which arguments the driver refuses to make a tensor map of
``chains``     random programs of 20 to 60 instructions with divergent control flow
``meetings``   random programs of whole blocks that must synchronise; ``happens_before`` is the
               model that says where, ``meeting_ptx`` writes them out, ``weakening`` takes one
               synchronisation away
``departures`` chains that an assembler which optimises makes something else of
``gpu``        runs them on a GPU, through the package's driver
``compare``    runs them here, and says for each instruction how many cases agreed
``records``    the GPU's answers, kept, so that a machine without one can replay
============== ==================================================================

The forms were written from the PTX ISA, not from the emulator's table: an
instruction misread there is not misread the same way here.

    python -m proof --help
"""
