// One tensor map for all groups: for each of them a warp puts another address into the map, and has
// the copy engine load. The copy of the group before may still go by the map that is changed.
#include "bug.cuh"
#include "ptx_sm90.cuh"
#include "tensor_map.cuh"

constexpr int WARP = 32, GROUPS = 3;

// Instructions on tensor maps: PTX ISA 9.7.9.28, 9.7.13.16 and 9.7.13.4.
__device__ void set_address(CUtensorMap* map, const void* address) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                 :: "r"(ptx::shared_address(map)), "l"(address) : "memory");
}

__device__ void publish(CUtensorMap* global, const CUtensorMap* map) {
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
                 ".aligned [%0], [%1], 128;"
                 :: "l"(global), "r"(ptx::shared_address(map)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(global) : "memory");
}

__global__ void sums(const __grid_constant__ CUtensorMap first, CUtensorMap* map,
                     const int* in,  // (GROUPS, WARP)
                     int* out)       // (WARP): sums of the columns
{
    __shared__ alignas(128) int slot[GROUPS][WARP];
    __shared__ alignas(128) CUtensorMap mine;
    __shared__ unsigned long long full[GROUPS];
    const int lane = threadIdx.x;
    reinterpret_cast<int*>(&mine)[lane] = reinterpret_cast<const int*>(&first)[lane];
    if (lane < GROUPS) ptx::mbarrier_init(&full[lane], 1);
    ptx::fence_mbarrier_init();
    __syncwarp();
    for (int g = 0; g < GROUPS; ++g) {
        if (lane == 0) set_address(&mine, in + g * WARP);
        __syncwarp();
        publish(map, &mine);
        if (lane == 0) {
            ptx::mbarrier_arrive_expect_tx(&full[g], sizeof slot[g]);
            ptx::cp_async_bulk_tensor_load(slot[g], *map, 0, 0, &full[g]);
        }
    }
    int sum = 0;
    for (int g = 0; g < GROUPS; ++g) {
        ptx::mbarrier_wait(&full[g], 0);
        sum += slot[g][lane];
    }
    out[lane] = sum;
}

int main() {
    std::vector<int> in(GROUPS * WARP), wanted(WARP);
    for (int i = 0; i < GROUPS * WARP; ++i) wanted[i % WARP] += in[i] = i * i;
    const int* given = to_device(in);
    int* out = poisoned<int>(WARP);
    CUtensorMap first = tensor_map_2d(given, 1, WARP, 1, WARP, CU_TENSOR_MAP_SWIZZLE_NONE);
    CUtensorMap* map = poisoned<CUtensorMap>(1);
    sums<<<1, WARP>>>(first, map, given, out);
    return verdict(to_host(out, WARP), wanted);
}
