"""What *Four producers, four consumers* needs, and *Pairs, and who hands out the tiles*, which goes
on with its kernels."""
