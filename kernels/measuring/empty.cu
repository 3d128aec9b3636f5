// What the ways of timing give where there is nothing to time: a kernel without work.
#include "timing.cuh"
using Clock = std::chrono::steady_clock;

__global__ void nothing() {}

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const int count = timing::emulated() ? 2 : 200;  // launches each way
    auto microseconds_since = [](Clock::time_point start) {
        return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
    };
    auto run = [] { nothing<<<512, 256>>>(); };  // the blocks and threads of matvec
    run();
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());  // the first launch loads it

    timing::Times called(count), waited(count), times(count);
    for (int i = 0; i < count; ++i) {
        const auto start = Clock::now();
        run();
        called[i] = microseconds_since(start);
        CHECK(cudaDeviceSynchronize());
        waited[i] = microseconds_since(start);
    }
    report("2 host clock, nobody waits", called);
    report("3 host clock, waited for", waited);
    report("4 events around each launch", timing::each(count, run));

    timing::Event before, after;
    for (double& time : times) {
        before.record();
        for (int i = 0; i < count; ++i) run();
        after.record();
        after.wait();
        time = after.since(before) / count;
    }
    report("5 events around 200 launches", times);

    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < count; ++i) nothing<<<512, 256, 0, stream>>>();
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    for (double& time : times) {
        before.record(stream);
        CHECK(cudaGraphLaunch(ready, stream));
        after.record(stream);
        after.wait();
        time = after.since(before) / count;
    }
    report("6 a graph of 200 launches", times);
    CHECK(cudaDeviceSynchronize());
    printf("nothing: OK, five ways\n");
    return 0;
}
