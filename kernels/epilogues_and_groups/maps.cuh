// Instructions that change a tensor map on the device (PTX ISA 9.7.9.28, 9.7.13.4, 9.7.13.16).
#pragma once
#include "ptx_sm90.cuh"

namespace ptx {

// tensormap.replace, 9.7.9.28: another address for a map that lies in shared memory. sm_90a.
__device__ inline void tensormap_replace_address(CUtensorMap* map, const void* address) {
    asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;"
                 :: "r"(shared_address(map)), "l"(address) : "memory");
}

// The same of the extent of dimension 1: the rows of a matrix. sm_90a.
__device__ inline void tensormap_replace_rows(CUtensorMap* map, int rows) {
    asm volatile("tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%0], 1, %1;"
                 :: "r"(shared_address(map)), "r"(rows) : "memory");
}

// tensormap.cp_fenceproxy, 9.7.13.16: a warp copies a map from shared to global memory and releases
// it to the copy engine. sm_90.
__device__ inline void tensormap_publish(CUtensorMap* global, const CUtensorMap* map) {
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync"
                 ".aligned [%0], [%1], 128;"
                 :: "l"(global), "r"(shared_address(map)) : "memory");
}

// fence.proxy.tensormap, 9.7.13.4: copies that this thread asks for from now on go by the map as it
// was released. sm_90.
__device__ inline void tensormap_acquire(const CUtensorMap* global) {
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;"
                 :: "l"(global) : "memory");
}

}  // namespace ptx
