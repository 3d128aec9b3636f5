// A kernel that launches a kernel: refused, in one sentence.
__global__ void inner(int* out) { out[0] = 1; }
__global__ void outer(int* out) { inner<<<1, 1>>>(out); }
int main() {
    int* out;
    cudaMalloc(&out, 4);
    outer<<<1, 1>>>(out);
    return cudaDeviceSynchronize() != cudaSuccess;
}
