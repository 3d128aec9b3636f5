/* Launches, for every program: `<<<>>>`, cudaLaunchKernel and its relatives. */
#define _GNU_SOURCE
#include "graph.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* `kernel<<<grid, block, shared, stream>>>(…)` pushes its configuration, then calls the stub,
 * which pops it. A thread can nest such calls while it computes arguments. */
enum { MOST_NESTED = 16 };
static _Thread_local struct shape pushed[MOST_NESTED];
static _Thread_local int pushes;
/* The launch that comes next is one by `<<<>>>`, whose status the program does not see. */
static _Thread_local bool bracketed;

API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
    if (pushes == MOST_NESTED)
        return 1;
    pushed[pushes++] = (struct shape){.grid = grid, .block = block, .shared = shared,
                                      .stream = stream};
    return 0;
}

API cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream) {
    if (!pushes)
        return fail(cudaErrorMissingConfiguration);
    struct shape *top = &pushed[--pushes];
    *grid = top->grid;
    *block = top->block;
    *shared = top->shared;
    *(cudaStream_t *)stream = top->stream;
    bracketed = true;
    return cudaSuccess;
}

static uint64_t volume(dim3 size) { return (uint64_t)size.x * size.y * size.z; }

static bool divides(dim3 cluster, dim3 grid) {
    return grid.x % cluster.x == 0 && grid.y % cluster.y == 0 && grid.z % cluster.z == 0;
}

static cudaError_t check_shape(const struct kernel *kernel, const struct shape *shape) {
    const struct facts *facts = &kernel->facts;
    dim3 grid = shape->grid, block = shape->block, cluster = shape->cluster;
    if (!volume(grid) || grid.x > MAX_GRID_X || grid.y > MAX_GRID_Y || grid.z > MAX_GRID_Z)
        return cudaErrorInvalidValue;
    if (!volume(block) || block.x > MAX_BLOCK_EXTENTS_X || block.y > MAX_BLOCK_EXTENTS_Y ||
        block.z > MAX_BLOCK_EXTENTS_Z)
        return cudaErrorInvalidValue;
    if (volume(block) > facts->max_threads)
        return cudaErrorInvalidValue;
    if (shape->shared > dynamic_shared_allowed(kernel))
        return cudaErrorInvalidValue;
    if (volume(cluster) > 1) {
        unsigned most = kernel->non_portable_cluster ? MAX_CLUSTER : PORTABLE_CLUSTER;
        if (facts->capability < 90 || volume(cluster) > most || !divides(cluster, grid))
            return cudaErrorInvalidClusterSize;
    }
    return cudaSuccess;
}

cudaError_t complete_shape(const struct kernel *kernel, struct shape *shape) {
    const uint64_t *own = kernel->facts.cluster; /* __cluster_dims__ */
    if (own[0]) {
        dim3 fixed = {own[0], own[1], own[2]};
        if (shape->cluster.x && memcmp(&fixed, &shape->cluster, sizeof fixed))
            return cudaErrorInvalidClusterSize;
        shape->cluster = fixed;
    }
    if (!shape->cluster.x)
        shape->cluster = (dim3){1, 1, 1};
    return check_shape(kernel, shape);
}

/* All blocks of a cooperative launch run at once, so they must fit. */
static cudaError_t check_cooperative(const struct kernel *kernel, const struct shape *shape) {
    uint64_t fits[2], multiprocessors;
    cudaError_t error = CALL(OP_OCCUPANCY, fits, sizeof fits, kernel->facts.number,
                             volume(shape->block), shape->shared, 0);
    if (!error)
        error = CALL(OP_ATTRIBUTE, &multiprocessors, sizeof multiprocessors, 16);
    if (!error && volume(shape->grid) > fits[0] * multiprocessors)
        error = cudaErrorCooperativeLaunchTooLarge;
    return error;
}

/* Kernels are launched without waiting: the error of a kernel is heard with a later answer. */
cudaError_t launch(const void *function, struct shape shape, void **arguments) {
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return error;
    struct stream *stream = find_stream(shape.stream);
    if (!stream)
        return cudaErrorInvalidResourceHandle;
    if (stream->device != current_device())
        return cudaErrorInvalidResourceHandle;
    if (is_legacy(stream) && capturing(NULL))
        return cudaErrorStreamCaptureImplicit;
    if (stream->capture) {
        struct node node = {0};
        error = graph_set_launch(&node, function, shape, arguments);
        if (!error)
            graph_add(stream->capture, node);
        return error;
    }
    if ((error = complete_shape(kernel, &shape)))
        return error;
    if (shape.cooperative && (error = check_cooperative(kernel, &shape)))
        return error;
    const struct facts *facts = &kernel->facts;
    char buffer[facts->parameter_bytes + 1];
    memset(buffer, 0, sizeof buffer);
    for (size_t i = 0; i < facts->parameters; i++)
        memcpy(buffer + kernel->parameters[i].offset, arguments[i], kernel->parameters[i].size);
    post_device(OP_LAUNCH,
                WORDS(facts->number, stream->number, shape.grid.x, shape.grid.y, shape.grid.z,
                      shape.block.x, shape.block.y, shape.block.z, shape.shared, shape.cluster.x,
                      shape.cluster.y, shape.cluster.z, shape.cooperative, stack_limit(),
                      heap_limit(), shape.dependent),
                buffer, facts->parameter_bytes);
    stream->last_launch = launches_sent();
    return cudaSuccess;
}

/* The device half remembers a launch that was refused, and where, until the program asks. */
static void refused(const void *function, const struct shape *shape, cudaError_t error) {
    cudaError_t unknown;
    struct kernel *kernel = find_kernel(function, &unknown);
    if (!kernel)
        return; /* what is wrong with its code has been said */
    uint64_t words[8 + MOST_CALLERS] = {gettid(),       shape->grid.x,  shape->grid.y,
                                        shape->grid.z,  shape->block.x, shape->block.y,
                                        shape->block.z, shape->shared};
    size_t count = 8 + callers(words + 8);
    char text[strlen(kernel->name) + 64];
    int size = snprintf(text, sizeof text, "%s %s", name_of(error), kernel->name);
    post_device(OP_REFUSED, words, count, text, size);
    unasked = true;
}

API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                 size_t shared, cudaStream_t stream) {
    bool unseen = bracketed;
    bracketed = false;
    ENTER();
    struct shape shape = {.grid = grid, .block = block, .shared = shared, .stream = stream};
    cudaError_t error = fail(launch(function, shape, arguments));
    if (error && unseen)
        refused(function, &shape, error);
    return error;
}

API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void **arguments,
                                   size_t shared, cudaStream_t stream) {
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

API cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block,
                                            void **arguments, size_t shared, cudaStream_t stream) {
    ENTER();
    struct shape shape = {.grid = grid, .block = block, .shared = shared, .stream = stream,
                          .cooperative = true};
    return fail(launch(function, shape, arguments));
}

/* Attributes other than these tune a GPU and change no result; they are taken and unused. */
static struct shape shape_of(const cudaLaunchConfig_t *config) {
    struct shape shape = {.grid = config->gridDim, .block = config->blockDim,
                          .shared = config->dynamicSmemBytes, .stream = config->stream};
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const cudaLaunchAttribute *attribute = &config->attrs[i];
        if (attribute->id == cudaLaunchAttributeClusterDimension)
            shape.cluster = attribute->val.clusterDim;
        if (attribute->id == cudaLaunchAttributeCooperative)
            shape.cooperative = attribute->val.cooperative;
        if (attribute->id == cudaLaunchAttributeProgrammaticStreamSerialization)
            shape.dependent = attribute->val.programmaticStreamSerializationAllowed;
    }
    return shape;
}

API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function,
                                    void **arguments) {
    ENTER();
    if (!config)
        return fail(cudaErrorInvalidValue);
    return fail(launch(function, shape_of(config), arguments));
}

/* Clusters that fit at once: the emulator runs a cluster on as many multiprocessors as it has
 * blocks, so this is the device's size over the cluster's. */
API cudaError_t cudaOccupancyMaxActiveClusters(int *clusters, const void *function,
                                               const cudaLaunchConfig_t *config) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (!clusters || !config)
        return fail(cudaErrorInvalidValue);
    struct shape shape = shape_of(config);
    struct kernel any = *kernel; /* CUTLASS asks with more threads than its kernel takes */
    any.facts.max_threads = MAX_BLOCK_EXTENTS_X;
    if ((error = complete_shape(&any, &shape)))
        return fail(error);
    uint64_t fits[2], multiprocessors;
    error = CALL(OP_OCCUPANCY, fits, sizeof fits, kernel->facts.number, volume(shape.block),
                 shape.shared, 0);
    if (!error)
        error = CALL(OP_ATTRIBUTE, &multiprocessors, sizeof multiprocessors, 16);
    if (!error)
        *clusters = fits[0] * multiprocessors / volume(shape.cluster);
    return fail(error);
}

API cudaError_t cudaOccupancyMaxPotentialClusterSize(int *size, const void *function,
                                                     const cudaLaunchConfig_t *config) {
    ENTER();
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return fail(error);
    if (!size || !config)
        return fail(cudaErrorInvalidValue);
    *size = kernel->facts.capability < 90       ? 1
            : kernel->non_portable_cluster      ? MAX_CLUSTER
                                                : PORTABLE_CLUSTER;
    return cudaSuccess;
}
