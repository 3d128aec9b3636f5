// new and delete in kernels: memory that outlives the kernel which asked for it.

struct Node {
    int value;
    Node* next;
    __device__ Node(int v, Node* n) : value(v), next(n) {}
};

// Each thread builds a list of its own: 0, 1, ... count - 1. heads: Node* [threads]
extern "C" __global__ void build(Node** heads, int count) {
    Node* head = nullptr;
    for (int i = 0; i < count + (int)threadIdx.x % 2; i++) head = new Node(i, head);
    heads[threadIdx.x] = head;
}

// sums: int32 [threads]; frees what it reads
extern "C" __global__ void sum_and_free(Node** heads, int* sums) {
    int sum = 0;
    for (Node* node = heads[threadIdx.x]; node != nullptr;) {
        Node* next = node->next;
        sum += node->value;
        delete node;
        node = next;
    }
    sums[threadIdx.x] = sum;
}

extern "C" __global__ void free_twice(int* out) {
    int* p = (int*)malloc(4);
    *p = 5;
    free(p);
    if (out[0]) free(p);
    else out[0] = *p;
}

extern "C" __global__ void too_much(int* out) { out[0] = malloc(1ull << 60) == nullptr; }

// An object made by one kernel and called by another, which mentions none of its functions.
struct Counter {
    __device__ virtual int next() = 0;
};
struct ByTwo : Counter {
    int count = 0;
    __device__ int next() override { return count += 2; }
};
extern "C" __global__ void make(Counter** counter) { *counter = new ByTwo; }
extern "C" __global__ void use(Counter** counter, int* out) {
    out[0] = (*counter)->next();
    out[1] = (*counter)->next();
}

// How many pieces of so many bytes there are; one is given back, and there is one more.
extern "C" __global__ void exhaust(int* out, size_t bytes) {
    void* last = nullptr;
    while (void* p = malloc(bytes)) last = p, out[0]++;
    free(last);
    while (malloc(bytes)) out[1]++;
}
