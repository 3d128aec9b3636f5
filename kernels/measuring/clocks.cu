// Six ways to take the time of one kernel. Not all of them take it.
#define OWN_MAIN
#include "measuring/matvec.cu"
#include "timing.cuh"
using Clock = std::chrono::steady_clock;

double microseconds_since(Clock::time_point start) {
    return std::chrono::duration<double, std::micro>(Clock::now() -
                                                     start).count();
}

void wait() { CHECK(cudaDeviceSynchronize()); }

int main(int argc, char** argv) {
    timing::Report report(argc, argv);
    const bool emulated = timing::emulated();
    const int count = emulated ? 2 : 200;  // launches each way
    const int M = emulated ? 8 : 4096, K = emulated ? 64 : 2048;  // A: 32 MiB
    std::mt19937 random(std::random_device{}());
    std::normal_distribution<float> normal;
    Problem<float> problem(M, K);
    problem.fill([&] { return normal(random); });
    auto run = [&] { problem.run(); };

    auto start = Clock::now();
    run();
    wait();
    report("1 the first launch, waited for", {microseconds_since(start)});
    problem.verify("normal random numbers", false);

    timing::Times times(count);
    for (double& time : times) {
        start = Clock::now();
        run();
        time = microseconds_since(start);
        wait();
    }
    report("2 host clock, nobody waits", times);

    for (double& time : times) {
        start = Clock::now();
        run();
        wait();
        time = microseconds_since(start);
    }
    report("3 host clock, waited for", times);

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

    // A graph is a queue written down once; to replay it is one call.
    cudaStream_t stream;
    cudaGraph_t graph;
    cudaGraphExec_t ready;
    CHECK(cudaStreamCreate(&stream));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    for (int i = 0; i < count; ++i)
        matvec<<<(M + ROWS - 1) / ROWS, THREADS, 0,
                 stream>>>(M, K, problem.A, problem.x, problem.y);
    CHECK(cudaStreamEndCapture(stream, &graph));
    CHECK(cudaGraphInstantiate(&ready, graph, 0));
    problem.poison();
    for (double& time : times) {
        before.record(stream);
        CHECK(cudaGraphLaunch(ready, stream));
        after.record(stream);
        after.wait();
        time = after.since(before) / count;
    }
    report("6 a graph of 200 launches", times);
    problem.verify("normal random numbers", false);
    printf("matvec: OK before and after\n");
}
