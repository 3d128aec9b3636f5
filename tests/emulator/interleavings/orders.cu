// Small kernels whose steps come in several orders; what only some of them show.
#include "ptx_sm90.cuh"

// A producer and a consumer hand over `items` numbers through a ring of two slots.
extern "C" __global__ void ring(int items, int* sum) {
    __shared__ unsigned long long full[2], empty[2];
    __shared__ int slot[2];
    if (threadIdx.x < 2) {
        ptx::mbarrier_init(&full[threadIdx.x], 1);
        ptx::mbarrier_init(&empty[threadIdx.x], 1);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < items; ++i) {
            ptx::mbarrier_wait(&empty[i % 2], i / 2 % 2 ^ 1);
            slot[i % 2] = i + 1;
            ptx::mbarrier_arrive(&full[i % 2]);
        }
    } else if (threadIdx.x == 32) {
        int total = 0;
        for (int i = 0; i < items; ++i) {
            ptx::mbarrier_wait(&full[i % 2], i / 2 % 2);
            total += slot[i % 2];
            ptx::mbarrier_arrive(&empty[i % 2]);
        }
        *sum = total;
    }
}

// Who looks late finds phase 1 open, and phase 0 has the parity of phase 2.
extern "C" __global__ void lapped(int* out) {
    __shared__ unsigned long long full;
    __shared__ int seen;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 1);
        seen = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive(&full);
        ptx::mbarrier_wait(&full, 0);
        ptx::mbarrier_arrive(&full);
    } else if (threadIdx.x == 32) {
        ptx::mbarrier_wait(&full, 0);
        *out = 1;
    }
}

// The mailbox is filled again, and nobody waits until it has been read.
extern "C" __global__ void mailbox(int letters, int* out) {
    __shared__ unsigned long long ready;
    __shared__ int box;
    if (threadIdx.x == 0) ptx::mbarrier_init(&ready, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 0; i < letters; ++i) {
            box = i;
            ptx::mbarrier_arrive(&ready);
        }
    } else if (threadIdx.x % 32 == 0) {
        for (int i = 0; i < letters; ++i) {
            ptx::mbarrier_wait(&ready, i % 2);
            out[letters * (threadIdx.x / 32) + i] = box;
        }
    }
}

// A consumer that finds nothing says that it sleeps, and sleeps; who brings something wakes whoever
// has said so. Between the look and the word somebody may bring it.
template <bool BROKEN>
__device__ void hand_over(int* out) {
    __shared__ unsigned long long wake;
    __shared__ int ready, asleep, slot;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&wake, 1);
        ready = asleep = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        slot = 42;
        __threadfence_block();
        atomicExch(&ready, 1);
        if (atomicAdd(&asleep, 0)) ptx::mbarrier_arrive(&wake);
    } else if (threadIdx.x == 32) {
        if (!BROKEN) atomicExch(&asleep, 1);
        if (!atomicAdd(&ready, 0)) {
            if (BROKEN) atomicExch(&asleep, 1);
            ptx::mbarrier_wait(&wake, 0);
        }
        __threadfence_block();
        *out = slot;
    }
}
extern "C" __global__ void lost_wake_up(int* out) { hand_over<true>(out); }
extern "C" __global__ void woken(int* out) { hand_over<false>(out); }

// Each warp takes a ticket. Whoever is last writes; whoever comes before it reads the same place.
extern "C" __global__ void last_one_out(int* counter, int* out) {
    if (threadIdx.x % 32 == 0) {
        const int ticket = atomicAdd(counter, 1);
        if (threadIdx.x == 0 && ticket == 2) out[0] = 1;
        if (threadIdx.x == 64 && ticket == 1) out[1] = out[0];
    }
}

// Everybody adds, nobody looks: the order makes no difference.
extern "C" __global__ void adds(int* counter) {
    if (threadIdx.x % 32 == 0) atomicAdd(counter, 1);
}

extern "C" __global__ void tickets(int* counter, int* out) {
    if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = atomicAdd(counter, 1);
}

extern "C" __global__ void flag(volatile int* flag, int* out) {
    if (threadIdx.x == 0) {
        out[0] = 5;
        __threadfence();
        *flag = 1;
    } else if (threadIdx.x == 32) {
        while (*flag == 0) {}
        __threadfence();
        out[1] = out[0];
    }
}

// Nobody sets the flag.
extern "C" __global__ void waits_for_ever(volatile int* flag, int* out) {
    if (threadIdx.x == 32) {
        while (*flag == 0) {}
        *out = 1;
    }
}

// Two copies of 16 bytes tell one barrier, and a third warp tells it too.
extern "C" __global__ void copies(const int* in, int* out) {
    __shared__ alignas(16) int slot[8];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) {
        ptx::mbarrier_init(&full, 2);
        ptx::fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, 32);
        ptx::cp_async_bulk_load(slot, in, 16, &full);
        ptx::cp_async_bulk_load(slot + 4, in + 4, 16, &full);
    } else if (threadIdx.x == 32) {
        ptx::mbarrier_arrive(&full);
    } else if (threadIdx.x == 64) {
        ptx::mbarrier_wait(&full, 0);
        int sum = 0;
        for (int x : slot) sum += x;
        *out = sum;
    }
}

// Two warps count themselves, nobody looks at the counter, and one of them hopes to be the last:
// by its fence it knows what the other did, if that one has counted itself before.
template <int LAST> __device__ void hope(int* out) {
    __shared__ int part[2], done;
    const int warp = threadIdx.x / 32;
    if (threadIdx.x == 0) done = 0;
    __syncthreads();
    if (threadIdx.x % 32 != 0) return;
    part[warp] = warp + 1;
    __threadfence_block();
    atomicAdd(&done, 1);
    __threadfence_block();
    if (warp == LAST) *out = part[0] + part[1];
}

extern "C" __global__ void hopes_0(int* out) { hope<0>(out); }
extern "C" __global__ void hopes_1(int* out) { hope<1>(out); }

// The first wait is only a question; whoever gets a no goes on all the same.
extern "C" __global__ void asks_once(int* out) {
    __shared__ unsigned long long full;
    __shared__ int slot;
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        slot = *out + 42;
        ptx::mbarrier_arrive(&full);
    } else if (threadIdx.x == 32) {
        int yes;
        asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0;\n"
                     "selp.b32 %0, 1, 0, p; }"
                     : "=r"(yes) : "r"(ptx::shared_address(&full)) : "memory");
        out[1] = slot + yes;
    }
}

// One warp traps; another arrives at a barrier that nobody has initialised.
extern "C" __global__ void traps(int* out) {
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) __trap();
    if (threadIdx.x == 32) {
        if (*out == 0) ptx::mbarrier_arrive(&full);
    }
}

// A copy tells a barrier that nobody waits for, and that may be invalid by then.
extern "C" __global__ void invalidated(const int* in, int* out) {
    __shared__ alignas(16) int slot[4];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::mbarrier_arrive_expect_tx(&full, 16);
        ptx::cp_async_bulk_load(slot, in, 16, &full);
    } else if (threadIdx.x == 32) {
        ptx::mbarrier_inval(&full);
        *out = 1;
    }
}

// A copy's arrival adds one to the pending count; another's may complete the phase before that.
extern "C" __global__ void more_pending(const int* in, int* out) {
    __shared__ alignas(16) int slot[4];
    __shared__ unsigned long long full;
    if (threadIdx.x == 0) ptx::mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        ptx::cp_async<16>(slot, in);
        asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];"
                     :: "r"(ptx::shared_address(&full)) : "memory");
    } else if (threadIdx.x == 32) {
        ptx::mbarrier_arrive(&full);
    } else if (threadIdx.x == 64) {
        ptx::mbarrier_wait(&full, 0);
        *out = slot[0];
    }
}

// A flag that is neither volatile nor atomic.
extern "C" __global__ void plain_flag(int* flag, int* out) {
    if (threadIdx.x == 0) {
        out[0] = 5;
        __threadfence();
        *flag = 1;
    } else if (threadIdx.x == 32) {
        while (*flag == 0) {}
        __threadfence();
        out[1] = out[0];
    }
}
