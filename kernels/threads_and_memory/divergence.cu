// Divergence: threads that go round a loop, each as often as it is told.
// turns (threads): how often; y (threads): what comes of it.
extern "C" __global__ void turn(const int* turns, unsigned* y) {
    const int t = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned value = t;
#pragma unroll 1  // one turn in the source is one turn on the machine
    for (int i = turns[t]; i > 0; --i) value = 5 * value + 1;
    y[t] = value;
}
