"""What it found in other people's kernels: the bugs of ``bugs/`` on a GPU and the emulator."""
