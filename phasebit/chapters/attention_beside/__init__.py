"""What *Attention beside others* needs alone; its kernels and counts are *Attention again*'s."""
