/* Graphs and their nodes. */
#pragma once
#include "runtime.h"

/* cudaGraphNodeType */
enum node_kind { NODE_KERNEL = 0, NODE_COPY = 1, NODE_FILL = 2, NODE_HOST = 3, NODE_EMPTY = 5 };

struct node {
    enum node_kind kind;
    const void *function; /* kernel */
    struct shape shape;
    void **arguments;
    struct block to, from; /* copy, fill */
    struct cudaExtent extent;
    int copy_kind, value;
    cudaHostFn_t host; /* host function */
    void *data;
    struct node *executable; /* this node in the graph instantiated last */
    struct node *next;
};

struct graph {
    struct node *first, *last;
    size_t count;
};

struct graph *graph_new(void);
void graph_free(struct graph *graph);
struct node *graph_add(struct graph *graph, struct node node);
cudaError_t graph_set_launch(struct node *node, const void *function, struct shape shape,
                             void **arguments);
/* Where a three-dimensional copy begins at either end. */
cudaError_t ends_3d(const struct cudaMemcpy3DParms *p, struct block *to, struct block *from);
