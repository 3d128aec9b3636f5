"""What the doors for other packages' kernels share (`phasebit.triton`, `phasebit.cute`): arrays and
tensors in this process's device memory, and PyTorch's `cuda` played by them."""
