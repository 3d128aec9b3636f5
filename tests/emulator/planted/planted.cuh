// A mistake and its repair, in one text. `PLANT(wrong, right)` is `wrong`, unless REPAIRED is
// defined. A line that ends in `// <- kind` is where the mistake must be found, and as what.
// Every kernel runs as 2 blocks of 64 threads; `in`, `out` and `scratch` are arrays of 128
// integers: 0, 1, 2, …; zeros; and nothing anybody has written.
#pragma once
#ifdef REPAIRED
#define PLANT(wrong, right) right
#else
#define PLANT(wrong, right) wrong
#endif
#define KERNEL extern "C" __global__ void
#define ARGUMENTS (const int* in, int* out, int* scratch)

__device__ inline int me() { return blockIdx.x * 64 + threadIdx.x; }
__device__ inline int lane() { return threadIdx.x % 32; }
__device__ inline int warp() { return threadIdx.x / 32; }
