// Copies and fills of two and three dimensions, from one device to the same one, and to symbols.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__device__ int table[4];

static void tell(const char *what, cudaError_t error) {
    printf("%s: %s\n", what, cudaGetErrorName(error));
}

// A box of bytes: `width` in a row, `height` rows in a slice, `depth` slices.
const size_t width = 24, height = 3, depth = 2;
static unsigned char host[depth][height][width], back[depth][height][width];

static int different() {
    int count = 0;
    for (size_t i = 0; i < sizeof host; i++)
        count += (&host[0][0][0])[i] != (&back[0][0][0])[i];
    memset(back, 0xEE, sizeof back);
    return count;
}

int main() {
    for (size_t i = 0; i < sizeof host; i++)
        (&host[0][0][0])[i] = i * 7 + 1;
    memset(back, 0xEE, sizeof back);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaExtent extent = make_cudaExtent(width, height, depth);
    cudaPitchedPtr box, other;
    tell("malloc 3d", cudaMalloc3D(&box, extent));
    cudaMalloc3D(&other, extent);
    printf("room for a row: %d, %zu x %zu\n", box.pitch >= width, box.xsize, box.ysize);

    cudaMemcpy3DParms in = {};
    in.srcPtr = make_cudaPitchedPtr(host, width, width, height);
    in.dstPtr = box;
    in.extent = extent;
    in.kind = cudaMemcpyHostToDevice;
    tell("3d in", cudaMemcpy3D(&in));
    cudaMemcpy3DParms out = {};
    out.srcPtr = box;
    out.dstPtr = make_cudaPitchedPtr(back, width, width, height);
    out.extent = extent;
    out.kind = cudaMemcpyDeviceToHost;
    tell("3d out", cudaMemcpy3DAsync(&out, stream));
    cudaStreamSynchronize(stream);
    printf("%d bytes differ\n", different());

    // The second slice's last two rows, from column 8 on, to the front of the other box.
    cudaMemcpy3DParms part = {};
    part.srcPtr = box;
    part.srcPos = make_cudaPos(8, 1, 1);
    part.dstPtr = other;
    part.extent = make_cudaExtent(16, 2, 1);
    part.kind = cudaMemcpyDeviceToDevice;
    tell("a part", cudaMemcpy3D(&part));
    unsigned char piece[2][16];
    tell("2d out", cudaMemcpy2DAsync(piece, 16, other.ptr, other.pitch, 16, 2,
                                     cudaMemcpyDeviceToHost, stream));
    cudaStreamSynchronize(stream);
    printf("rows as they were: %d %d\n", !memcmp(piece[0], &host[1][1][8], 16),
           !memcmp(piece[1], &host[1][2][8], 16));
    tell("wider than its pitch", cudaMemcpy2DAsync(piece, 8, other.ptr, other.pitch, 16, 2,
                                                   cudaMemcpyDeviceToHost, stream));
    cudaGetLastError();

    tell("fill 3d", cudaMemset3D(box, 5, extent));
    tell("fill 2d", cudaMemset2DAsync(box.ptr, box.pitch, 6, 4, 2, stream));
    tell("fill 3d in a stream", cudaMemset3DAsync(box, 9, make_cudaExtent(2, 1, 2), stream));
    cudaStreamSynchronize(stream);
    cudaMemcpy3D(&out);
    for (size_t z = 0; z < depth; z++)
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < width; x++)
                host[z][y][x] = x < 2 && y == 0 ? 9 : x < 4 && y < 2 && z == 0 ? 6 : 5;
    printf("%d bytes differ\n", different());

    int values[4] = {1, 2, 3, 4}, seen[4] = {};
    int *device[2];
    cudaMalloc(&device[0], sizeof values);
    cudaMalloc(&device[1], sizeof values);
    cudaMemcpy(device[0], values, sizeof values, cudaMemcpyHostToDevice);
    tell("peer", cudaMemcpyPeer(device[1], 0, device[0], 0, sizeof values));
    tell("peer", cudaMemcpyPeerAsync(device[0], 0, device[1] + 2, 0, 8, stream));
    tell("no such device", cudaMemcpyPeer(device[1], 0, device[0], 99, sizeof values));
    cudaGetLastError();
    cudaStreamSynchronize(stream);
    cudaMemcpy(seen, device[0], sizeof seen, cudaMemcpyDeviceToHost);
    printf("%d %d %d %d\n", seen[0], seen[1], seen[2], seen[3]);

    tell("to a symbol", cudaMemcpyToSymbolAsync(table, values, 12, 4, cudaMemcpyHostToDevice,
                                                stream));
    tell("from a symbol", cudaMemcpyFromSymbolAsync(seen, table, 16, 0, cudaMemcpyDeviceToHost,
                                                    stream));
    cudaStreamSynchronize(stream);
    printf("%d %d %d %d\n", seen[0], seen[1], seen[2], seen[3]);
}
