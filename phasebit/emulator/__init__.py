"""A GPU that one can read: PTX executed in Python and NumPy.

Read the modules in this order; each uses only those above it.

==================  ============================================================
``syntax``          what a PTX module consists of
``lexer, reader``   from text to that
``types``           PTX types, and the NumPy types that hold them
``table``           one entry an instruction; ``ops`` holds the functions
``cfg``             basic blocks, live registers, post-dominators
``layout``          where variables, parameters and stack frames lie
``translate``       from blocks to Python functions, by ``write_values``,
                    ``write_accesses``, ``write_block``
``memory``          one buffer for all of device memory
``group``           threads that execute together: registers and addresses
``agents``          asynchronous work and its schedules
``machine``         blocks become resident, groups take turns, nobody starves
``hazards``         the checker: ``bounds``, ``races``, ``traffic``
``launch``          Module, Kernel, Run: what a program uses
==================  ============================================================
"""
