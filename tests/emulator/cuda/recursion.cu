// Functions that call themselves, each other, and through pointers.
#include <cstdio>

__device__ __noinline__ int fibonacci(int n) {
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__device__ __noinline__ bool odd(unsigned n);
__device__ __noinline__ bool even(unsigned n) { return n == 0 || odd(n - 1); }
__device__ __noinline__ bool odd(unsigned n) { return n != 0 && even(n - 1); }

// Quicksort. Each call passes the address of its own range down, and looks at the end
// whether its callees left it alone.
struct Range { int low, high; const Range* caller; };

__device__ __noinline__ int sort(int* a, int low, int high, const Range* caller) {
    Range here = {low, high, caller};
    int broken = caller != nullptr && (low < caller->low || high > caller->high);
    if (low >= high) return broken;
    int pivot = a[(low + high) / 2], i = low, j = high;
    while (i <= j) {
        while (a[i] < pivot) i++;
        while (a[j] > pivot) j--;
        if (i <= j) { int t = a[i]; a[i++] = a[j]; a[j--] = t; }
    }
    broken += sort(a, low, j, &here);
    broken += sort(a, i, high, &here);
    return broken + (here.low != low || here.high != high || here.caller != caller);
}

struct Shape { __device__ virtual int area(int n) const = 0; };
struct Square : Shape { __device__ int area(int n) const override { return n * n; } };
struct Pyramid : Shape {
    const Shape* step;
    __device__ int area(int n) const override {
        return n == 0 ? 0 : step->area(n) + area(n - 1);
    }
};

// out: int32 [threads, 5]; every thread takes its own way
extern "C" __global__ void recursion(int* out) {
    const int t = threadIdx.x;
    int a[24];
    for (int i = 0; i < 24; i++) a[i] = (i * 7 + t * 13) % 31;
    const int broken = sort(a, 0, 23, nullptr);
    int sorted = 1;
    for (int i = 1; i < 24; i++) sorted &= a[i - 1] <= a[i];
    Square square;
    Pyramid pyramid;
    pyramid.step = &square;
    const Shape* shape = t % 2 ? (const Shape*)&pyramid : (const Shape*)&square;
    out[5 * t] = fibonacci(t % 10);
    out[5 * t + 1] = broken;
    out[5 * t + 2] = sorted;
    out[5 * t + 3] = even(t);
    out[5 * t + 4] = shape->area(t % 5);
}

__device__ __noinline__ int forever(int n) {
    volatile int frame[8];
    frame[n & 7] = n;
    return forever(n + 1) + frame[n & 7];
}

extern "C" __global__ void endless(int* out) { out[0] = forever(out[1]); }

// A callee that only a pointer names has a frame of its own too.
typedef int (*Function)(int);
__device__ __noinline__ int scribble(int n) {
    volatile int frame[16];
    for (int i = 0; i < 16; i++) frame[i] = -n;
    return frame[n & 15];
}
__device__ __noinline__ int twice(int n) { return 2 * n; }
__device__ Function table[2] = {scribble, twice};

extern "C" __global__ void through_pointer(int* out) {
    volatile int mine[16];
    const int t = threadIdx.x;
    for (int i = 0; i < 16; i++) mine[i] = 100 * t + i;
    int sum = table[t & 1](t);
    for (int i = 0; i < 16; i++) sum += mine[i] != 100 * t + i;
    out[t] = sum;
}

__device__ __noinline__ int countdown(int n) {
    if (n > 0) countdown(n - 1);
    printf("%d of thread %d\n", n, threadIdx.x);
    return n;
}

extern "C" __global__ void talk(int* out) { out[threadIdx.x] = countdown(2 + threadIdx.x); }
