// Kernels that may begin before the one before them has ended. sm_90.
#pragma once
#include "bug.cuh"

// griddepcontrol.launch_dependents, 9.7.13.13: the next kernel may begin.
__device__ inline void launch_dependents() {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

// griddepcontrol.wait, 9.7.13.13: the kernels before have ended, and what they wrote is seen.
__device__ inline void wait_for_kernels() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// Launch a kernel that may begin before the kernel before it in the stream has ended.
template <class... T>
void launch_early(void (*kernel)(T...), int blocks, int threads, T... arguments) {
    cudaLaunchAttribute early;
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.attrs = &early;
    config.numAttrs = 1;
    CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}
