"""A GPU that one can read: PTX executed in Python and NumPy.

Read the modules in this order; each uses only those above it.

==================  ============================================================
``syntax``          what a PTX module consists of
``lexer, reader``   from text to that; ``link``, from several texts
``types``           PTX types, and the NumPy types that hold them
``table``           one entry an instruction; ``ops`` holds the functions
``cfg``             basic blocks, live registers, post-dominators
``layout``          where variables, parameters and stack frames lie
``translate``       from blocks to Python functions, by ``write_values``,
                    ``write_accesses``, ``write_block``
``memory``          one buffer for all of device memory
``group``           threads that execute together: registers and addresses
``agents``          asynchronous work and its schedules
``cluster``         the barrier of blocks that start together
``bulk``            copies by the copy engine; ``tensormap``, ``tensor_copy`` and
                    ``swizzle``: boxes of tensors
``tensor_memory``   columns that blocks allocate; ``tensor_work`` and ``tensor_mma``: the
                    products of ``tcgen05``, told by ``matrix_descriptors`` and
                    ``instruction_descriptors``; ``block_scales`` and
                    ``scaled_descriptors`` for those with scales, ``sub_byte``: numbers of
                    4 and 6 bits
``machine``         blocks become resident, groups take turns, nobody starves
``hazards``         the checker: ``bounds``, ``races``, ``traffic``, ``proxies``
                    (the copy engine), ``tensor_checks``, and ``footprint``, which makes
                    checks cheap
``launch``          Module, Kernel, Run: what a program uses
==================  ============================================================

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

The cost of a NumPy call hardly depends on the number of threads up to some thousands, so
wide groups are cheap: large blocks, many blocks, warps that stay together.  Blocks are
run several at a time, fewer when checked (``machine.STACKED``).  ``make bench`` prints
the speed of each mode on your machine.
"""
