// Two halves of a transpose through a tile: its accesses to device memory alone, its accesses to
// shared memory alone, and the whole, with as many blocks at once and with fewer.
#define main transpose_main  // its kernels, and not its times
#include "threads_and_memory/transpose.cu"
#undef main
#include "timing.cuh"

constexpr int EACH = TILE / THREADS_Y;  // numbers of a thread

// The device's addresses: in registers, the numbers go where the transpose writes, and only whole
// tiles have changed places.
template <bool WAITS>
__global__ void device_alone(const float* __restrict__ in, float* __restrict__ out, int rows,
                             int cols) {
    float held[EACH];
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int x = blockIdx.x * TILE + threadIdx.x,
                  y = blockIdx.y * TILE + threadIdx.y + i * THREADS_Y;  // of the input
        if (x < cols && y < rows) held[i] = in[y * cols + x];
    }
    if (WAITS) __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; ++i) {
        const int x = blockIdx.y * TILE + threadIdx.x,
                  y = blockIdx.x * TILE + threadIdx.y + i * THREADS_Y;  // of the output
        if (x < rows && y < cols) out[y * rows + x] = held[i];
    }
}

// The tile's addresses. Thread (x, y) adds up what it reads and writes the sum where that is not
// 0: with `scale` 0 nobody writes, and the compiler cannot know.
template <int WIDTH>
__device__ void shared_alone(unsigned* __restrict__ out, int rows, int cols, unsigned scale) {
    __shared__ unsigned tile[TILE][WIDTH];
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.x * TILE + threadIdx.x, y = blockIdx.y * TILE + j;
        if (x < cols && y < rows) tile[j][threadIdx.x] = scale * (j * TILE + threadIdx.x);
    }
    __syncthreads();
    unsigned sum = 0;
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.y * TILE + threadIdx.x, y = blockIdx.x * TILE + j;
        if (x < rows && y < cols) sum += tile[threadIdx.x][j];
    }
    const int block = blockIdx.y * gridDim.x + blockIdx.x;
    if (sum != 0) out[(block * THREADS_Y + threadIdx.y) * TILE + threadIdx.x] = sum;
}
__global__ void shared_tiled(unsigned* out, int rows, int cols, unsigned scale) {
    shared_alone<TILE>(out, rows, cols, scale);
}
__global__ void shared_padded(unsigned* out, int rows, int cols, unsigned scale) {
    shared_alone<TILE + 1>(out, rows, cols, scale);
}

// The whole without the barrier: a race, so what it writes is wrong, and only its time is of use.
template <int WIDTH>
__device__ void not_waiting(const float* __restrict__ in, float* __restrict__ out, int rows,
                            int cols) {
    __shared__ float tile[TILE][WIDTH];
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.x * TILE + threadIdx.x,
                  y = blockIdx.y * TILE + j;  // of the input
        if (x < cols && y < rows) tile[j][threadIdx.x] = in[y * cols + x];
    }
    asm volatile("" ::: "memory");  // the compiler keeps the order
    for (int j = threadIdx.y; j < TILE; j += THREADS_Y) {
        const int x = blockIdx.y * TILE + threadIdx.x,
                  y = blockIdx.x * TILE + j;  // of the output
        if (x < rows && y < cols) out[y * rows + x] = tile[threadIdx.x][j];
    }
}
__global__ void racing_tiled(const float* in, float* out, int rows, int cols) {
    not_waiting<TILE>(in, out, rows, cols);
}
__global__ void racing_padded(const float* in, float* out, int rows, int cols) {
    not_waiting<TILE + 1>(in, out, rows, cols);
}

__global__ void nothing(unsigned*, int, int, unsigned) {}

void demand(bool right, const char* what) {
    if (right) return;
    printf("%s: WRONG\n", what);
    fflush(stdout);
    fprintf(stderr, "wrong result of %s\n", what);
    exit(2);
}

struct Contender {
    std::string name;
    const void* kernel;
    std::function<void(int shared)> run;  // with so many bytes of unused shared memory
};

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const dim3 block(TILE, THREADS_Y);
    std::mt19937 random(std::random_device{}());
    {   // whole tiles change places, and within a tile nothing does
        const int rows = 64, cols = 96;
        std::vector<float> host(rows * cols), got(rows * cols);
        for (float& each : host) each = float(random() % 65536);
        float *in, *out;
        CHECK(cudaMalloc(&in, host.size() * 4));
        CHECK(cudaMalloc(&out, host.size() * 4));
        CHECK(cudaMemcpy(in, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
        for (auto kernel : {device_alone<true>, device_alone<false>}) {
            CHECK(cudaMemset(out, 0xff, host.size() * 4));
            kernel<<<dim3(cols / TILE, rows / TILE), block>>>(in, out, rows, cols);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost));
            for (int y = 0; y < cols; ++y)
                for (int x = 0; x < rows; ++x)
                    demand(got[y * rows + x] == host[(x / TILE * TILE + y % TILE) * cols +
                                                     y / TILE * TILE + x % TILE],
                           "device memory alone");
        }
        printf("device memory alone: OK\n");
        for (auto kernel : {shared_tiled, shared_padded}) {
            CHECK(cudaMemset(out, 0xff, host.size() * 4));
            kernel<<<dim3(cols / TILE, rows / TILE), block>>>((unsigned*)out, rows, cols, 1);
            CHECK(cudaGetLastError());
            CHECK(cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost));
            const int sums = TILE * THREADS_Y, all = rows * cols / (TILE * TILE) * sums;
            for (int i = 0; i < all; ++i) {
                const int x = i % TILE, y = i % sums / TILE;
                unsigned sum = 0, found;
                for (int j = y; j < TILE; j += THREADS_Y) sum += x * TILE + j;
                memcpy(&found, &got[i], sizeof found);
                demand(found == sum, "shared memory alone");
            }
        }
        printf("shared memory alone: OK\n");
        for (const moves::Version& version :
             {moves::Version{"tiled", tiled, true}, moves::Version{"padded", padded, true}})
            moves::check(version, rows, cols, random);
        printf("whole: OK\n");
        CHECK(cudaFree(in)), CHECK(cudaFree(out));
    }
    if (emulated) return 0;

    const int rows = moves::BIG, cols = moves::BIG;
    const size_t bytes = size_t(rows) * cols * 4;
    const dim3 grid(cols / TILE, rows / TILE);
    float *in, *out;
    CHECK(cudaMalloc(&in, bytes));
    CHECK(cudaMalloc(&out, bytes));
    std::vector<uint32_t> bits(bytes / 4);
    for (uint32_t& word : bits) word = random();
    CHECK(cudaMemcpy(in, bits.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemset(out, 0, bytes));
    auto moving = [&](const char* name, moves::Kernel kernel) {
        return Contender{name, (const void*)kernel, [=](int shared) {
            kernel<<<grid, block, shared>>>(in, out, rows, cols);
        }};
    };
    auto staying = [&](const char* name, void (*kernel)(unsigned*, int, int, unsigned)) {
        return Contender{name, (const void*)kernel, [=](int shared) {
            kernel<<<grid, block, shared>>>((unsigned*)out, rows, cols, 0);
        }};
    };
    const std::vector<Contender> contenders = {
        moving("copy", copy),
        moving("tiled", tiled),
        moving("padded", padded),
        moving("device memory alone", device_alone<true>),
        moving("device memory alone, no barrier", device_alone<false>),
        staying("tiled, shared memory alone", shared_tiled),
        staying("padded, shared memory alone", shared_padded),
        moving("tiled, no barrier", racing_tiled),
        moving("padded, no barrier", racing_padded),
        staying("no accesses", nothing),
    };
    // Unused shared memory keeps blocks away: how much leaves so many of them at once.
    struct Turn {
        std::string name;
        const Contender* of;
        int shared;
        timing::Times times;
    };
    std::vector<Turn> turns;
    cudaDeviceProp device;
    CHECK(cudaGetDeviceProperties(&device, 0));
    for (const Contender& each : contenders) {
        CHECK(cudaFuncSetAttribute(each.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   int(device.sharedMemPerBlockOptin) - 8192));
        int most = 0;
        CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&most, each.kernel, TILE * THREADS_Y,
                                                            0));
        for (int wanted : {most, 6, 4, 2}) {
            int shared = 0, at_once = 0;
            for (;; shared += 1024) {
                CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(
                    &at_once, each.kernel, TILE * THREADS_Y, shared));
                if (at_once <= wanted) break;
            }
            if (at_once != wanted || (shared == 0 && wanted != most)) continue;
            turns.push_back({each.name + ", " + std::to_string(wanted) + " at once", &each, shared,
                             {}});
        }
    }
    turns.push_back({"cudaMemcpy", nullptr, 0, {}});
    std::vector<int> order(turns.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (int round = 0; round < 15; ++round) {
        std::shuffle(order.begin(), order.end(), random);
        for (int number : order) {
            Turn& turn = turns[number];
            auto run = [&] {
                if (turn.of) turn.of->run(turn.shared);
                else CHECK(cudaMemcpyAsync(out, in, bytes, cudaMemcpyDeviceToDevice));
            };
            const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(10);
            while (std::chrono::steady_clock::now() < until) {}  // a rest
            if (turn.shared)  // else the driver decides, as for any kernel
                CHECK(cudaFuncSetAttribute(turn.of->kernel,
                                           cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutMaxShared));
            run();
            for (double time : timing::each(2, run)) turn.times.push_back(time);
            CHECK(cudaGetLastError());
            if (turn.shared)
                CHECK(cudaFuncSetAttribute(turn.of->kernel,
                                           cudaFuncAttributePreferredSharedMemoryCarveout,
                                           cudaSharedmemCarveoutDefault));
        }
    }
    for (const Turn& turn : turns) {
        report.say("%s: %.0f µs", turn.name.c_str(), timing::quantile(turn.times, 0.5));
        report.keep(turn.name.c_str(), turn.times);
    }
}
