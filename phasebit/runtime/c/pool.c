/* Memory pools, for programs that allocate in a stream: a pool is a name for the device's
 * memory, with attributes to set and read. */
#include "runtime.h"
#include <stdlib.h>

enum { ATTRIBUTES = 9, FIRST_SIZE = 4 }; /* attributes 1-3 are int, 4-8 are 64-bit sizes */
struct pool {
    uint64_t attributes[ATTRIBUTES];
};
static struct pool usual = {{0, 1, 1, 1}};
static struct pool *current = &usual;

API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) {
    ENTER();
    if (device)
        return fail(cudaErrorInvalidDevice);
    *pool = &usual;
    return cudaSuccess;
}

API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *pool, int device) {
    ENTER();
    if (device)
        return fail(cudaErrorInvalidDevice);
    *pool = current;
    return cudaSuccess;
}

API cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t pool) {
    ENTER();
    if (device)
        return fail(cudaErrorInvalidDevice);
    current = pool ? pool : &usual;
    return cudaSuccess;
}

API cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const void *properties) {
    ENTER();
    if (!pool || !properties)
        return fail(cudaErrorInvalidValue);
    *pool = calloc(1, sizeof **pool);
    **pool = (struct pool){{0, 1, 1, 1}};
    return cudaSuccess;
}

API cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    ENTER();
    if (!pool || pool == &usual)
        return fail(cudaErrorInvalidValue);
    if (current == pool)
        current = &usual;
    free(pool);
    return cudaSuccess;
}

API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    ENTER();
    (void)keep; /* freed memory is given back at once */
    return fail(pool ? cudaSuccess : cudaErrorInvalidValue);
}

API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int attribute, void *value) {
    ENTER();
    if (!pool || !value || attribute < 1 || attribute >= ATTRIBUTES)
        return fail(cudaErrorInvalidValue);
    pool->attributes[attribute] =
        attribute < FIRST_SIZE ? (uint64_t) * (int *)value : *(uint64_t *)value;
    return cudaSuccess;
}

API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, int attribute, void *value) {
    ENTER();
    if (!pool || !value || attribute < 1 || attribute >= ATTRIBUTES)
        return fail(cudaErrorInvalidValue);
    if (attribute < FIRST_SIZE)
        *(int *)value = pool->attributes[attribute];
    else
        *(uint64_t *)value = pool->attributes[attribute];
    return cudaSuccess;
}
