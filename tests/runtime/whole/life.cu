// Game of life: 2D blocks, pitched memory, ballots, printf from the device, a functor, doubles.
#include <cstdio>
#include <cuda_runtime.h>

constexpr int W = 40, H = 24;

struct Rule {
    unsigned born, stays;
    __device__ bool operator()(bool alive, int neighbours) const {
        return (alive ? stays : born) >> neighbours & 1;
    }
};

template <class F> __global__ void step(const char *from, char *to, size_t pitch, F rule) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= W || y >= H)
        return;
    int neighbours = 0;
    for (int dy = -1; dy <= 1; dy++)
        for (int dx = -1; dx <= 1; dx++)
            if (dx || dy)
                neighbours += from[(y + dy + H) % H * pitch + (x + dx + W) % W];
    to[y * pitch + x] = rule(from[y * pitch + x], neighbours);
}

__global__ void report(const char *cells, size_t pitch, double *share) {
    int alive = 0;
    for (int i = threadIdx.x; i < W * H; i += 32)
        alive += cells[i / W * pitch + i % W];
    alive = __reduce_add_sync(0xffffffff, alive);
    unsigned row = __ballot_sync(0xffffffff, cells[pitch + threadIdx.x]);
    if (threadIdx.x == 0) {
        *share = double(alive) / (W * H);
        printf("alive %d, row 1: %08x, share %.4f\n", alive, row, *share);
    }
}

int main() {
    char host[H][W] = {};
    const char *glider[] = {".#.", "..#", "###"};
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++)
            host[y][x] = glider[y][x] == '#';
    char *a, *b;
    size_t pitch;
    double *share;
    cudaMallocPitch(&a, &pitch, W, H);
    cudaMallocPitch(&b, &pitch, W, H);
    cudaMalloc(&share, sizeof *share);
    cudaMemcpy2D(a, pitch, host, W, W, H, cudaMemcpyHostToDevice);
    dim3 block(16, 8), grid((W + 15) / 16, (H + 7) / 8);
    cudaEvent_t start, stop;
    cudaEventCreate(&start);
    cudaEventCreate(&stop);
    cudaEventRecord(start);
    for (int i = 0; i < 8; i++) {
        step<<<grid, block>>>(a, b, pitch, Rule{1 << 3, 1 << 2 | 1 << 3});
        step<<<grid, block>>>(b, a, pitch, Rule{1 << 3, 1 << 2 | 1 << 3});
    }
    cudaEventRecord(stop);
    cudaEventSynchronize(stop);
    float milliseconds = 0;
    cudaEventElapsedTime(&milliseconds, start, stop);
    report<<<1, 32>>>(a, pitch, share);
    cudaMemcpy2D(host, W, a, pitch, W, H, cudaMemcpyDeviceToHost);
    bool moved = host[4][5] && host[5][6] && host[6][4] && host[6][5] && host[6][6];
    printf("moved by four: %d, time passed: %d, %s\n", moved, milliseconds > 0,
           cudaGetErrorName(cudaGetLastError()));
}
