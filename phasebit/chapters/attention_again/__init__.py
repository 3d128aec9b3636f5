"""What *Attention again* needs, and *Attention beside others*, which changes its kernels."""
