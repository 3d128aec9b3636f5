"""From CUDA source to a launch on a device: what stands between the emulator and a GPU.

=================  =============================================================
``build``          CUDA source to PTX, by nvcc
``devices``        which device runs a kernel
``driver``         the CUDA driver through ctypes
``on_gpu``         a kernel of the emulator, launched on a GPU
``timing``         how long launches take there
``launch``         Module, Kernel: one launch call for both devices
``one_product``    a product of tensor cores whose descriptors are arguments
``two_devices``    a launch to be made on both and compared
``warp_timeline``  a run, drawn: what its warps did
``ring_timeline``  a ring of slots in a run, drawn as Part I draws one
``playback``       a run of one block, step by step: for the replays in the pages
``slot_history``   what the slots of a ring go through in it
=================  =============================================================
"""
