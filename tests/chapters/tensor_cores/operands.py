"""What programs that compare a product begin with: A and B of small whole numbers, room for C."""

OPERANDS = """\
    std::vector<__nv_bfloat16> A(n * n), B(n * n);
    unsigned state = 1;
    for (auto* each : {&A, &B})
        for (auto& e : *each) e = __nv_bfloat16(float(int((state = state * 1664525u + 1013904223u)
                                                          >> 24) % 9 - 4));
    __nv_bfloat16 *a, *b;
    float* c;
    CHECK(cudaMalloc(&a, n * n * 2));
    CHECK(cudaMalloc(&b, n * n * 2));
    CHECK(cudaMalloc(&c, n * n * 4));
    CHECK(cudaMemcpy(a, A.data(), n * n * 2, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(b, B.data(), n * n * 2, cudaMemcpyHostToDevice));"""
"""Needs ``n``, the rows of each; gives A and B here, a, b and c on the GPU."""
