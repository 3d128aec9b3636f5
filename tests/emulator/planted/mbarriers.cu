// The mbarrier, used wrongly.
#include "planted.cuh"

__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(b), "r"(n) : "memory");
}
__device__ void arrive(unsigned b) {
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(b) : "memory");
}
__device__ bool passed(unsigned b, int parity) {
    int yes;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }"
                 : "=r"(yes) : "r"(b), "r"(parity) : "memory");
    return yes;
}
__device__ void wait(unsigned b, int parity) { while (!passed(b, parity)) {} }

KERNEL init_twice ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 0) {
        init(at(&bar), 64);
        PLANT(asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&bar)) : "memory"), );  // <- barrier
    }
    __syncthreads();
    arrive(at(&bar));
    wait(at(&bar), 0);
    out[me()] = in[me()];
}

KERNEL never_initialised ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == PLANT(in[64], 0)) init(at(&bar), 64);
    __syncthreads();
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(at(&bar)) : "memory");  // <- fault
    out[me()] = in[me()];
}

KERNEL arrival_before_init ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 63) init(at(&bar), 64);
    PLANT(, __syncthreads());
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(at(&bar)) : "memory");  // <- fault race
    out[me()] = in[me()];
}

KERNEL wait_before_init ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 0) init(at(&bar), 1);
    PLANT(, __syncthreads());
    if (threadIdx.x == 0) arrive(at(&bar));
    else wait(at(&bar), 0);  // <- race fault
    out[me()] = in[me()];
}

KERNEL one_arrival_too_many_expected ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 0) init(at(&bar), PLANT(65, 64));
    __syncthreads();
    arrive(at(&bar));
    while (!passed(at(&bar), 0)) {}  // <- deadlock
    out[me()] = in[me()];
}

KERNEL one_arrival_too_few_expected ARGUMENTS {
    __shared__ long long bar;
    __shared__ int tile[64];
    if (threadIdx.x == 0) init(at(&bar), PLANT(32, 64));
    __syncthreads();
    tile[threadIdx.x] = in[me()];
    arrive(at(&bar));  // <- barrier
    wait(at(&bar), 0);  // <- deadlock
    out[me()] = tile[63 - threadIdx.x];  // <- race
}

KERNEL two_phases_unseen ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 0) init(at(&bar), 64);
    __syncthreads();
    arrive(at(&bar));
    PLANT(__syncthreads(), wait(at(&bar), 0));
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared.b64 t, [%0]; }" :: "r"(at(&bar)) : "memory");  // <- barrier
    wait(at(&bar), 1);
    out[me()] = in[me()];
}

KERNEL wrong_parity ARGUMENTS {
    __shared__ long long bar;
    __shared__ int tile[64];
    if (threadIdx.x == 0) init(at(&bar), 64);
    __syncthreads();
    tile[threadIdx.x] = in[me()];
    arrive(at(&bar));
    wait(at(&bar), PLANT(1, 0));  // <- deadlock
    out[me()] = tile[63 - threadIdx.x];  // <- race uninitialised
}

KERNEL same_parity_again ARGUMENTS {
    __shared__ long long bar;
    __shared__ int tile[64];
    if (threadIdx.x == 0) init(at(&bar), 64);
    __syncthreads();
    int sum = 0;
#pragma unroll 1
    for (int round = 0; round < 4; round += 2) {
        tile[threadIdx.x] = in[me()] + round;  // <- race
        arrive(at(&bar));
        wait(at(&bar), 0);
        sum += tile[63 - threadIdx.x];  // <- race
        arrive(at(&bar));
        wait(at(&bar), PLANT(0, 1));  // <- deadlock
    }
    out[me()] = sum;
}

KERNEL forgotten_wait ARGUMENTS {
    __shared__ long long full;
    __shared__ int tile[32];
    if (threadIdx.x == 0) init(at(&full), 32);
    __syncthreads();
    if (warp() == 0) {
        tile[lane()] = in[me()];
        arrive(at(&full));
    } else {
        PLANT(, wait(at(&full), 0));
        out[me()] = tile[lane()];  // <- race uninitialised
    }
}

KERNEL memory_reused_without_inval ARGUMENTS {
    __shared__ long long bar;
    if (threadIdx.x == 0) init(at(&bar), 64);
    __syncthreads();
    arrive(at(&bar));
    wait(at(&bar), 0);
    __syncthreads();
    if (threadIdx.x == 0) {
        PLANT(, asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(at(&bar)) : "memory"));
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" :: "r"(at(&bar)) : "memory");  // <- fault
    }
    __syncthreads();
    arrive(at(&bar));
    wait(at(&bar), 0);
    out[me()] = in[me()];
}
