// A CUTLASS product D = alpha A·B + beta C by its CollectiveBuilder, against a loop on the host.
//
// One case a compilation: -DCASE_... macros name the types, tiles and schedules.  The program
// takes m n k (and l, a count of products side by side) and says "right", or how many are wrong.

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/gemm/kernel/tile_scheduler.hpp"
#include "cutlass/util/packed_stride.hpp"

using namespace cute;

#ifndef CASE_ELEMENT_A
#define CASE_ELEMENT_A cutlass::half_t
#endif
#ifndef CASE_ELEMENT_B
#define CASE_ELEMENT_B CASE_ELEMENT_A
#endif
#ifndef CASE_ELEMENT_C
#define CASE_ELEMENT_C cutlass::half_t
#endif
#ifndef CASE_ELEMENT_D
#define CASE_ELEMENT_D CASE_ELEMENT_C
#endif
#ifndef CASE_TOTAL
#define CASE_TOTAL float
#endif
#ifndef CASE_LAYOUT_A
#define CASE_LAYOUT_A RowMajor
#endif
#ifndef CASE_LAYOUT_B
#define CASE_LAYOUT_B ColumnMajor
#endif
#ifndef CASE_LAYOUT_D
#define CASE_LAYOUT_D RowMajor
#endif
#ifndef CASE_M
#define CASE_M 128
#endif
#ifndef CASE_N
#define CASE_N 128
#endif
#ifndef CASE_K
#define CASE_K 64
#endif
#ifndef CASE_CLUSTER_M
#define CASE_CLUSTER_M 1
#endif
#ifndef CASE_CLUSTER_N
#define CASE_CLUSTER_N 1
#endif
#ifndef CASE_SCHEDULE
#define CASE_SCHEDULE cutlass::gemm::collective::KernelScheduleAuto
#endif
#ifndef CASE_EPILOGUE
#define CASE_EPILOGUE cutlass::epilogue::collective::EpilogueScheduleAuto
#endif
#ifndef CASE_SCHEDULER
#define CASE_SCHEDULER void
#endif
#ifndef CASE_ARCH
#define CASE_ARCH cutlass::arch::Sm90
#endif

using TypeA = CASE_ELEMENT_A;
using TypeB = CASE_ELEMENT_B;
using TypeC = CASE_ELEMENT_C;
using TypeD = CASE_ELEMENT_D;
using Total = CASE_TOTAL;
using LayoutA = cutlass::layout::CASE_LAYOUT_A;
using LayoutB = cutlass::layout::CASE_LAYOUT_B;
using LayoutD = cutlass::layout::CASE_LAYOUT_D;
constexpr int align_a = 128 / cutlass::sizeof_bits<TypeA>::value;
constexpr int align_b = 128 / cutlass::sizeof_bits<TypeB>::value;
constexpr int align_d = 128 / cutlass::sizeof_bits<TypeD>::value;
template <class T> struct align_of { static constexpr int value = 128 / cutlass::sizeof_bits<T>::value; };
template <> struct align_of<void> { static constexpr int value = align_d; };
constexpr int align_c = align_of<TypeC>::value;

using TileShape = Shape<Int<CASE_M>, Int<CASE_N>, Int<CASE_K>>;
using ClusterShape = Shape<Int<CASE_CLUSTER_M>, Int<CASE_CLUSTER_N>, _1>;
using OpClass = cutlass::arch::OpClassTensorOp;

using CollectiveEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    CASE_ARCH, OpClass, TileShape, ClusterShape, cutlass::epilogue::collective::EpilogueTileAuto, Total, Total, TypeC,
    LayoutD, align_c, TypeD, LayoutD, align_d, CASE_EPILOGUE>::CollectiveOp;
using CollectiveMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    CASE_ARCH, OpClass, TypeA, LayoutA, align_a, TypeB, LayoutB, align_b, Total, TileShape, ClusterShape,
    cutlass::gemm::collective::StageCountAutoCarveout<
        static_cast<int>(sizeof(typename CollectiveEpilogue::SharedStorage))>,
    CASE_SCHEDULE>::CollectiveOp;
using GemmKernel = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, CollectiveMainloop, CollectiveEpilogue,
                                                    CASE_SCHEDULER>;
using DeviceGemm = cutlass::gemm::device::GemmUniversalAdapter<GemmKernel>;

std::mt19937 generator(std::random_device{}());

// Packed numbers of any width: small integers.
template <class T> struct Operand {
    std::vector<float> plain;
    void *device = nullptr;
    explicit Operand(size_t n) : plain(n) {
        std::uniform_int_distribution<int> one(-3, 3);
        std::vector<uint8_t> bytes((n * cutlass::sizeof_bits<T>::value + 7) / 8 + 16);
        for (size_t i = 0; i < n; i++) {
            plain[i] = float(one(generator));
            T t = T(plain[i]);
            if constexpr (cutlass::sizeof_bits<T>::value >= 8)
                reinterpret_cast<T *>(bytes.data())[i] = t;
            else
                cute::subbyte_iterator<T>(reinterpret_cast<T *>(bytes.data()))[i] = t;
        }
        cudaMalloc(&device, bytes.size());
        cudaMemcpy(device, bytes.data(), bytes.size(), cudaMemcpyHostToDevice);
    }
};

int main(int count, char **words) {
    const int m = atoi(words[1]), n = atoi(words[2]), k = atoi(words[3]);
    const int l = count > 4 ? atoi(words[4]) : 1;
    const float alpha = 2, beta = cute::is_void_v<TypeC> ? 0 : 3;
    using Old = cute::conditional_t<cute::is_void_v<TypeC>, TypeD, TypeC>;
    Operand<TypeA> a(size_t(m) * k * l);
    Operand<TypeB> b(size_t(n) * k * l);
    Operand<Old> c(size_t(m) * n * l);
    Operand<TypeD> d(size_t(m) * n * l);
    auto stride_a = cutlass::make_cute_packed_stride(typename GemmKernel::StrideA{}, make_shape(m, k, l));
    auto stride_b = cutlass::make_cute_packed_stride(typename GemmKernel::StrideB{}, make_shape(n, k, l));
    auto stride_c = cutlass::make_cute_packed_stride(typename GemmKernel::StrideC{}, make_shape(m, n, l));
    auto stride_d = cutlass::make_cute_packed_stride(typename GemmKernel::StrideD{}, make_shape(m, n, l));

    typename DeviceGemm::Arguments given{
        cutlass::gemm::GemmUniversalMode::kGemm, {m, n, k, l}, {}, {{}, nullptr, stride_c, (TypeD *)d.device, stride_d}};
    given.mainloop.ptr_A = (decltype(given.mainloop.ptr_A))a.device;
    given.mainloop.dA = stride_a;
    given.mainloop.ptr_B = (decltype(given.mainloop.ptr_B))b.device;
    given.mainloop.dB = stride_b;
    if constexpr (!cute::is_void_v<TypeC>)
        given.epilogue.ptr_C = (const TypeC *)c.device;
    given.epilogue.thread.alpha = Total(alpha);
    given.epilogue.thread.beta = Total(beta);
#ifdef CASE_SPLITS
    given.scheduler.splits = CASE_SPLITS;
#endif
#ifdef CASE_DECOMPOSITION
    given.scheduler.decomposition_mode = cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90StreamKParams::DecompositionMode::CASE_DECOMPOSITION;
#endif
    given.hw_info.sm_count =
#ifdef CASE_SMS
        CASE_SMS;
#else
        cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
#endif
#ifdef CASE_CLUSTERS  // as many as the device holds, also where there is not a tile for each
    given.hw_info.max_active_clusters = CASE_CLUSTERS;
#endif
    DeviceGemm gemm;
    void *workspace = nullptr;
    cudaMalloc(&workspace, DeviceGemm::get_workspace_size(given) + 16);
    auto status = gemm.can_implement(given);
    if (status == cutlass::Status::kSuccess)
        status = gemm.initialize(given, workspace);
    if (status == cutlass::Status::kSuccess)
        status = gemm.run();
    if (status != cutlass::Status::kSuccess || cudaDeviceSynchronize() != cudaSuccess) {
        printf("status: %s, %s\n", cutlassGetStatusString(status), cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    std::vector<TypeD> out(d.plain.size());
    cudaMemcpy(out.data(), d.device, out.size() * sizeof(TypeD), cudaMemcpyDeviceToHost);

    size_t wrong = 0;
    constexpr bool row_a = cute::is_same_v<LayoutA, cutlass::layout::RowMajor>;
    constexpr bool row_b = cute::is_same_v<LayoutB, cutlass::layout::RowMajor>;
    constexpr bool row_d = cute::is_same_v<LayoutD, cutlass::layout::RowMajor>;
    for (int p = 0; p < l; p++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++) {
                float sum = 0;
                const float *pa = &a.plain[size_t(p) * m * k], *pb = &b.plain[size_t(p) * n * k];
                for (int x = 0; x < k; x++)
                    sum += pa[row_a ? i * k + x : x * m + i] * pb[row_b ? x * n + j : j * k + x];
                const size_t at = size_t(p) * m * n + (row_d ? i * n + j : j * m + i);
                const float want = alpha * sum + beta * c.plain[at];
                wrong += float(out[at]) != float(TypeD(want));
            }
    if (wrong)
        printf("%zu of %zu are wrong\n", wrong, out.size());
    else
        puts("right");
    return wrong != 0;
}
