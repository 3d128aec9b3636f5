"""What *Pairs, and who hands out the tiles* needs alone; its kernels are *Four producers, four
consumers*'s."""
