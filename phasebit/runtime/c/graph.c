/* Graphs, for programs that launch the same small kernels again and again: work written down.
 *
 * A graph here is the list of its nodes in the order in which they were added or captured. Every
 * dependency points backwards in that order, so running down the list respects them all; what is
 * lost is only overlap, in the times that events read. */
#include "graph.h"
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t size) {
    void *made = calloc(1, size);
    if (!made)
        abort();
    return made;
}

struct graph *graph_new(void) { return allocate(sizeof(struct graph)); }

void graph_free(struct graph *graph) {
    for (struct node *node = graph->first, *next; node; node = next) {
        next = node->next;
        free(node->arguments);
        free(node);
    }
    free(graph);
}

struct node *graph_add(struct graph *graph, struct node node) {
    struct node *made = allocate(sizeof *made);
    *made = node;
    made->next = NULL;
    *(graph->last ? &graph->last->next : &graph->first) = made;
    graph->last = made;
    graph->count++;
    return made;
}

/* A launch keeps its arguments: pointers first, then the values that they point to. */
cudaError_t graph_set_launch(struct node *node, const void *function, struct shape shape,
                             void **arguments) {
    cudaError_t error;
    struct kernel *kernel = find_kernel(function, &error);
    if (!kernel)
        return error;
    if ((error = complete_shape(kernel, &shape)))
        return error;
    const struct facts *facts = &kernel->facts;
    void **kept = allocate(facts->parameters * sizeof *kept + facts->parameter_bytes + 1);
    char *values = (char *)(kept + facts->parameters);
    for (size_t i = 0; i < facts->parameters; i++) {
        kept[i] = values + kernel->parameters[i].offset;
        memcpy(kept[i], arguments[i], kernel->parameters[i].size);
    }
    free(node->arguments);
    node->kind = NODE_KERNEL;
    node->function = function;
    node->shape = shape;
    node->arguments = kept;
    return cudaSuccess;
}

static struct node *copied(struct graph *graph, const struct node *node) {
    struct node *made = graph_add(graph, *node);
    if (node->kind == NODE_KERNEL) {
        made->arguments = NULL;
        graph_set_launch(made, node->function, node->shape, node->arguments);
    }
    return made;
}

static cudaError_t run_node(const struct node *node, cudaStream_t stream) {
    struct shape shape = node->shape;
    switch (node->kind) {
    case NODE_KERNEL:
        shape.stream = stream;
        return launch(node->function, shape, node->arguments);
    case NODE_COPY:
        return copy(node->to, node->from, node->extent, node->copy_kind, stream, false);
    case NODE_FILL:
        return fill((void *)node->to.at, node->to.pitch, node->value, node->extent.width,
                    node->extent.height, stream);
    case NODE_HOST:
        return run_host_function(node->host, node->data, stream);
    default:
        return cudaSuccess;
    }
}

API cudaError_t cudaGraphCreate(struct graph **graph, unsigned flags) {
    ENTER();
    if (!graph || flags)
        return fail(cudaErrorInvalidValue);
    *graph = graph_new();
    return cudaSuccess;
}

API cudaError_t cudaGraphDestroy(struct graph *graph) {
    ENTER();
    if (!graph)
        return fail(cudaErrorInvalidValue);
    graph_free(graph);
    return cudaSuccess;
}

/* An executable graph is a copy: the graph may change or go. */
API cudaError_t cudaGraphInstantiate(struct graph **made, struct graph *graph,
                                     unsigned long long flags) {
    ENTER();
    (void)flags;
    if (!made || !graph)
        return fail(cudaErrorInvalidValue);
    *made = graph_new();
    for (struct node *node = graph->first; node; node = node->next)
        node->executable = copied(*made, node);
    return cudaSuccess;
}

API cudaError_t cudaGraphInstantiateWithFlags(struct graph **made, struct graph *graph,
                                              unsigned long long flags) {
    return cudaGraphInstantiate(made, graph, flags);
}

API cudaError_t cudaGraphClone(struct graph **made, struct graph *graph) {
    ENTER();
    if (!made || !graph)
        return fail(cudaErrorInvalidValue);
    *made = graph_new();
    for (struct node *node = graph->first; node; node = node->next)
        copied(*made, node)->executable = NULL;
    return cudaSuccess;
}

API cudaError_t cudaGraphExecDestroy(struct graph *graph) { return cudaGraphDestroy(graph); }

API cudaError_t cudaGraphLaunch(struct graph *graph, cudaStream_t handle) {
    ENTER();
    struct stream *stream = find_stream(handle);
    if (!graph)
        return fail(cudaErrorInvalidValue);
    if (!stream)
        return fail(cudaErrorInvalidResourceHandle);
    cudaError_t error = cudaSuccess;
    for (struct node *node = graph->first; node && !error; node = node->next)
        error = run_node(node, handle);
    return fail(error);
}

API cudaError_t cudaGraphUpload(struct graph *graph, cudaStream_t stream) {
    ENTER();
    return fail(graph && find_stream(stream) ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count) {
    ENTER();
    if (!graph || !count)
        return fail(cudaErrorInvalidValue);
    size_t i = 0;
    if (nodes)
        for (struct node *node = graph->first; node && i < *count; node = node->next)
            nodes[i++] = node;
    *count = nodes ? i : graph->count;
    return cudaSuccess;
}

API cudaError_t cudaGraphNodeGetType(struct node *node, int *type) {
    ENTER();
    if (!node || !type)
        return fail(cudaErrorInvalidValue);
    *type = node->kind;
    return cudaSuccess;
}

/* Nodes added by hand. Dependencies are nodes that exist already: the order says it all. */
static cudaError_t added(struct node **answer, struct graph *graph, struct node node) {
    if (!graph || !answer)
        return cudaErrorInvalidValue;
    *answer = graph_add(graph, node);
    return cudaSuccess;
}

static struct shape shape_of(const struct cudaKernelNodeParams *p) {
    return (struct shape){
        .grid = p->gridDim, .block = p->blockDim, .shared = p->sharedMemBytes};
}

API cudaError_t cudaGraphAddKernelNode(struct node **answer, struct graph *graph,
                                       struct node *const *after, size_t count,
                                       const struct cudaKernelNodeParams *p) {
    ENTER();
    (void)after, (void)count;
    struct node node = {0};
    cudaError_t error = p ? graph_set_launch(&node, p->func, shape_of(p), p->kernelParams)
                          : cudaErrorInvalidValue;
    return fail(error ? error : added(answer, graph, node));
}

API cudaError_t cudaGraphKernelNodeSetParams(struct node *node,
                                             const struct cudaKernelNodeParams *p) {
    ENTER();
    if (!node || !p || node->kind != NODE_KERNEL)
        return fail(cudaErrorInvalidValue);
    return fail(graph_set_launch(node, p->func, shape_of(p), p->kernelParams));
}

API cudaError_t cudaGraphExecKernelNodeSetParams(struct graph *graph, struct node *node,
                                                 const struct cudaKernelNodeParams *p) {
    ENTER();
    for (struct node *own = graph ? graph->first : NULL; own; own = own->next)
        if (node && own == node->executable)
            return cudaGraphKernelNodeSetParams(own, p);
    return fail(cudaErrorInvalidValue);
}

API cudaError_t cudaGraphAddMemcpyNode1D(struct node **answer, struct graph *graph,
                                         struct node *const *after, size_t count, void *to,
                                         const void *from, size_t size, int kind) {
    ENTER();
    (void)after, (void)count;
    struct node node = {.kind = NODE_COPY, .to = {to, 0, 0}, .from = {from, 0, 0},
                        .extent = {size, 1, 1}, .copy_kind = kind};
    return fail(added(answer, graph, node));
}

API cudaError_t cudaGraphAddMemcpyNode(struct node **answer, struct graph *graph,
                                       struct node *const *after, size_t count,
                                       const struct cudaMemcpy3DParms *p) {
    ENTER();
    (void)after, (void)count;
    struct node node = {.kind = NODE_COPY};
    cudaError_t error = ends_3d(p, &node.to, &node.from);
    if (error)
        return fail(error);
    node.extent = p->extent;
    node.copy_kind = p->kind;
    return fail(added(answer, graph, node));
}

API cudaError_t cudaGraphAddMemsetNode(struct node **answer, struct graph *graph,
                                       struct node *const *after, size_t count,
                                       const struct cudaMemsetParams *p) {
    ENTER();
    (void)after, (void)count;
    if (!p)
        return fail(cudaErrorInvalidValue);
    unsigned byte = p->value & 0xff;
    unsigned pattern = byte * 0x01010101u >> (32 - 8 * p->elementSize) % 32;
    if (p->value != pattern)
        return missing("cudaGraphAddMemsetNode with a value whose bytes differ");
    struct node node = {.kind = NODE_FILL, .to = {p->dst, p->pitch, 0}, .value = byte,
                        .extent = {p->width * p->elementSize, p->height, 1}};
    if (p->height == 1)
        node.to.pitch = node.extent.width;
    return fail(added(answer, graph, node));
}

API cudaError_t cudaGraphAddHostNode(struct node **answer, struct graph *graph,
                                     struct node *const *after, size_t count,
                                     const struct cudaHostNodeParams *p) {
    ENTER();
    (void)after, (void)count;
    if (!p || !p->fn)
        return fail(cudaErrorInvalidValue);
    return fail(
        added(answer, graph, (struct node){.kind = NODE_HOST, .host = p->fn, .data = p->userData}));
}

API cudaError_t cudaGraphAddEmptyNode(struct node **answer, struct graph *graph,
                                      struct node *const *after, size_t count) {
    ENTER();
    (void)after, (void)count;
    return fail(added(answer, graph, (struct node){.kind = NODE_EMPTY}));
}

API cudaError_t cudaGraphAddDependencies(struct graph *graph, struct node *const *from,
                                         struct node *const *to, const void *data, size_t count) {
    ENTER();
    (void)data;
    /* Allowed where the order says it already. */
    for (size_t i = 0; i < count; i++) {
        struct node *node = from[i];
        while (node && node != to[i])
            node = node->next;
        if (!node)
            return missing("cudaGraphAddDependencies from a later node to an earlier one");
    }
    return fail(graph ? cudaSuccess : cudaErrorInvalidValue);
}
