"""*Attention: what binds*: checks; its kernels, tables and pictures are *Attention*'s."""
