// PTX instructions of Hopper and later: barriers of the copy engine, bulk copies, warp groups.
// One instruction a function, as in ptx.cuh, which this file includes.
#pragma once
#include "ptx.cuh"
#include <cuda.h>

namespace ptx {

// mbarrier.init, 9.7.13.15.9: a barrier in shared memory, whose phases each take COUNT arrivals.
// sm_80.
__device__ inline void mbarrier_init(unsigned long long* barrier, unsigned count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(count) : "memory");
}

// mbarrier.inval, 9.7.13.15.10: the barrier's memory is free for other uses. sm_80.
__device__ inline void mbarrier_inval(unsigned long long* barrier) {
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];"
                 :: "r"(shared_address(barrier)) : "memory");
}

// mbarrier.arrive, 9.7.13.15.13: one arrival. sm_80.
__device__ inline void mbarrier_arrive(unsigned long long* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 :: "r"(shared_address(barrier)) : "memory");
}

// mbarrier.arrive.shared::cluster, 9.7.13.15.13: one arrival at the same barrier of the block of
// this rank in the cluster. sm_90.
__device__ inline void mbarrier_arrive_at(unsigned long long* barrier, unsigned rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }"
                 :: "r"(shared_address(barrier)), "r"(rank) : "memory");
}

// The same without a scope, which is .release.cta: for a thread whose reads the barrier hands over,
// and no stores. (With .release.cluster it first waits for its stores, wherever they go.) sm_90.
__device__ inline void mbarrier_arrive_at_after_reads(unsigned long long* barrier, unsigned rank) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }"
                 :: "r"(shared_address(barrier)), "r"(rank) : "memory");
}

// mbarrier.arrive.expect_tx, 9.7.13.15.13: one arrival; the phase also waits for these bytes.
// sm_90.
__device__ inline void mbarrier_arrive_expect_tx(unsigned long long* barrier, unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(shared_address(barrier)), "r"(bytes) : "memory");
}

// mbarrier.try_wait.parity, 9.7.13.15.16: wait until the phase of this parity has completed. sm_90.
__device__ inline void mbarrier_wait(unsigned long long* barrier, unsigned parity) {
    asm volatile("{ .reg .pred done;\n"
                 "AGAIN: mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN; }"
                 :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// The same with .acquire.cluster: also what other blocks of the cluster did before they arrived is
// seen. sm_90.
__device__ inline void mbarrier_wait_cluster(unsigned long long* barrier, unsigned parity) {
    asm volatile("{ .reg .pred done;\n"
                 "AGAIN: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra AGAIN; }"
                 :: "r"(shared_address(barrier)), "r"(parity) : "memory");
}

// fence.mbarrier_init, 9.7.13.4: the copy engine and other blocks see initialised barriers. sm_90.
__device__ inline void fence_mbarrier_init() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// fence.proxy.async, 9.7.13.4: what threads have stored in shared memory, the copy engine and the
// tensor cores see from now on. sm_90.
__device__ inline void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// barrier.cluster.arrive, 9.7.13.3: be counted at the barrier of the cluster. sm_90.
__device__ inline void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}

// barrier.cluster.wait, 9.7.13.3: wait until all threads of the cluster have arrived. sm_90.
__device__ inline void cluster_wait() {
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// cp.async.bulk, 9.7.9.25.4.1: BYTES bytes from global to shared memory, all multiples of 16;
// the barrier counts them. sm_90.
__device__ inline void cp_async_bulk_load(void* shared, const void* global, unsigned bytes,
                                          unsigned long long* barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3];"
                 :: "r"(shared_address(shared)), "l"(global), "r"(bytes),
                    "r"(shared_address(barrier)) : "memory");
}

// cp.async.bulk, 9.7.9.25.4.1: bytes from shared to global memory, in this thread's bulk group.
// sm_90.
__device__ inline void cp_async_bulk_store(void* global, const void* shared, unsigned bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(global), "r"(shared_address(shared)), "r"(bytes) : "memory");
}

// cp.async.bulk.tensor.2d, 9.7.9.27.1.2: the box of a tensor at column x and row y to shared
// memory (128-byte aligned); the barrier counts the bytes of the whole box. sm_90.
__device__ inline void cp_async_bulk_tensor_load(void* shared, const CUtensorMap& map, int x, int y,
                                                 unsigned long long* barrier) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2, %3}], [%4];"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(x), "r"(y),
                    "r"(shared_address(barrier)) : "memory");
}

// The same with .multicast::cluster: to the same place in each block of the cluster whose bit is
// set in the mask, and counted by each block's own barrier. sm_90.
__device__ inline void cp_async_bulk_tensor_multicast(void* shared, const CUtensorMap& map, int x,
                                                      int y, unsigned long long* barrier,
                                                      unsigned short mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 :: "r"(shared_address(shared)), "l"(&map), "r"(x), "r"(y),
                    "r"(shared_address(barrier)), "h"(mask) : "memory");
}

// cp.async.bulk.tensor.2d, 9.7.9.27.1.2: from shared memory to the box of a tensor at column x and
// row y, in this thread's bulk group; what lies outside of the tensor is not written. sm_90.
__device__ inline void cp_async_bulk_tensor_store(const CUtensorMap& map, int x, int y,
                                                  const void* shared) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                 :: "l"(&map), "r"(x), "r"(y), "r"(shared_address(shared)) : "memory");
}

// cp.async.bulk.commit_group, 9.7.9.27.2.1: this thread's bulk copies since the last one become a
// group. sm_90.
__device__ inline void cp_async_bulk_commit_group() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// cp.async.bulk.wait_group, 9.7.9.27.2.2: wait until at most PENDING groups are under way. sm_90.
template <int PENDING> __device__ inline void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(PENDING) : "memory");
}

// cp.async.bulk.wait_group.read, 9.7.9.27.2.2: wait until all but PENDING groups have read their
// sources, which may then be overwritten. sm_90.
template <int PENDING> __device__ inline void cp_async_bulk_wait_group_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(PENDING) : "memory");
}

// stmatrix, 9.7.14.5.16: four 8 × 8 matrices of 16-bit elements. Lanes 8i to 8i + 7 give the
// addresses of the rows of matrix i, 16 bytes each; lane l has in register i the elements
// 2(l % 4) and 2(l % 4) + 1 of row l / 4: ldmatrix the other way. sm_90.
__device__ inline void stmatrix_x4(void* row, unsigned r0, unsigned r1, unsigned r2, unsigned r3) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(shared_address(row)), "r"(r0), "r"(r1), "r"(r2), "r"(r3) : "memory");
}

// prefetch.tensormap, 9.7.9.15: fetch the description of a tensor before the first copy. sm_90.
__device__ inline void prefetch_tensormap(const CUtensorMap& map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(&map) : "memory");
}

// A descriptor of a K-major tile for wgmma, 9.7.15.5.1.2.2: rows of 128 bytes, swizzled in groups
// of eight that lie 1024 bytes apart. 32 bytes along K are 2 more in the descriptor. sm_90a.
__device__ inline unsigned long long descriptor_128B(const void* tile) {
    return (shared_address(tile) & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// wgmma.fence, 9.7.15.7.1: what the warp group did to its registers comes before the
// multiplications that use them. sm_90a.
__device__ inline void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

// wgmma.commit_group, 9.7.15.7.2: the multiplications begun since the last one become a group.
// sm_90a.
__device__ inline void wgmma_commit_group() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// wgmma.wait_group, 9.7.15.7.3: wait until at most PENDING groups, the newest, are under way.
// sm_90a.
template <int PENDING> __device__ inline void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}

// wgmma.mma_async, 9.7.15.5.2: begin d (64, 128) = a (64, 16) · b (16, 128) + d, or without + d
// where `add` is false; bf16 into f32, a and b K-major. Thread t of the warp group holds in d[i]
// row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column 8(i / 4) + 2(t % 4) + i % 2. sm_90a.
__device__ inline void wgmma_m64n128k16(float (&d)[64], unsigned long long a,
                                         unsigned long long b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63},"
                 " %64, %65, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                   "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                   "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                   "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                   "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                   "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
                   "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
                   "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                   "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
                 : "l"(a), "l"(b), "r"(int(add)));
}

// wgmma.mma_async, 9.7.15.5.2: begin d (64, 256) = a (64, 16) · b (16, 256) + d, or without + d
// where `add` is false; bf16 into f32, a and b K-major. Thread t of the warp group holds in d[i]
// row 16(t / 32) + t % 32 / 4 + 8(i / 2 % 2) and column 8(i / 4) + 2(t % 4) + i % 2. sm_90a.
__device__ inline void wgmma_m64n256k16(float (&d)[128], unsigned long long a,
                                         unsigned long long b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %130, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "
                 "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "
                 "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "
                 "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "
                 "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "
                 "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "
                 "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
                 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, "
                 "%108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "
                 "%120, %121, %122, %123, %124, %125, %126, %127},"
                 " %128, %129, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                   "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                   "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                   "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]),
                   "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]),
                   "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                   "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]),
                   "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                   "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]),
                   "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                   "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]),
                   "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                   "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]),
                   "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63]),
                   "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]),
                   "+f"(d[68]), "+f"(d[69]), "+f"(d[70]), "+f"(d[71]),
                   "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]),
                   "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79]),
                   "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]),
                   "+f"(d[84]), "+f"(d[85]), "+f"(d[86]), "+f"(d[87]),
                   "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]),
                   "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95]),
                   "+f"(d[96]), "+f"(d[97]), "+f"(d[98]), "+f"(d[99]),
                   "+f"(d[100]), "+f"(d[101]), "+f"(d[102]), "+f"(d[103]),
                   "+f"(d[104]), "+f"(d[105]), "+f"(d[106]), "+f"(d[107]),
                   "+f"(d[108]), "+f"(d[109]), "+f"(d[110]), "+f"(d[111]),
                   "+f"(d[112]), "+f"(d[113]), "+f"(d[114]), "+f"(d[115]),
                   "+f"(d[116]), "+f"(d[117]), "+f"(d[118]), "+f"(d[119]),
                   "+f"(d[120]), "+f"(d[121]), "+f"(d[122]), "+f"(d[123]),
                   "+f"(d[124]), "+f"(d[125]), "+f"(d[126]), "+f"(d[127])
                 : "l"(a), "l"(b), "r"(int(add)));
}

// setmaxnreg, 9.7.19.5: this warp group takes registers, waiting until there are enough, or gives
// some back; a multiple of 8 from 24 to 256. sm_90a.
template <int REGISTERS> __device__ inline void setmaxnreg_inc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}
template <int REGISTERS> __device__ inline void setmaxnreg_dec() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(REGISTERS));
}

}  // namespace ptx
