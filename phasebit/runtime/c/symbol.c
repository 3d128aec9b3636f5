/* Device variables by name, for programs that have some: __device__, __constant__, __managed__. */
#include "runtime.h"

API cudaError_t cudaGetSymbolAddress(void **address, const void *symbol) {
    ENTER();
    cudaError_t error;
    struct variable *found = find_variable(symbol, &error);
    if (found && !address)
        error = cudaErrorInvalidValue;
    if (!error)
        *address = (void *)own_address(found);
    return fail(error);
}

API cudaError_t cudaGetSymbolSize(size_t *size, const void *symbol) {
    ENTER();
    cudaError_t error;
    struct variable *found = find_variable(symbol, &error);
    if (found && !size)
        error = cudaErrorInvalidValue;
    if (!error)
        *size = found->size;
    return fail(error);
}

static cudaError_t copy_symbol(const void *symbol, const void *other, size_t size, size_t offset,
                               int kind, cudaStream_t stream, bool wait, bool to_symbol) {
    cudaError_t error;
    struct variable *found = find_variable(symbol, &error);
    if (!found)
        return error;
    if (offset > found->size || size > found->size - offset)
        return cudaErrorInvalidValue;
    int wrong = to_symbol ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice;
    if (kind == wrong || kind == cudaMemcpyHostToHost)
        return cudaErrorInvalidMemcpyDirection;
    struct block own = {(void *)(own_address(found) + offset), 0, 0}, host = {other, 0, 0};
    return copy(to_symbol ? own : host, to_symbol ? host : own, (struct cudaExtent){size, 1, 1},
                kind, stream, wait);
}

API cudaError_t cudaMemcpyToSymbol(const void *symbol, const void *from, size_t size,
                                   size_t offset, int kind) {
    ENTER();
    return fail(copy_symbol(symbol, from, size, offset, kind, NULL, true, true));
}

API cudaError_t cudaMemcpyFromSymbol(void *to, const void *symbol, size_t size, size_t offset,
                                     int kind) {
    ENTER();
    return fail(copy_symbol(symbol, to, size, offset, kind, NULL, true, false));
}

API cudaError_t cudaMemcpyToSymbolAsync(const void *symbol, const void *from, size_t size,
                                        size_t offset, int kind, cudaStream_t stream) {
    ENTER();
    return fail(copy_symbol(symbol, from, size, offset, kind, stream, false, true));
}

API cudaError_t cudaMemcpyFromSymbolAsync(void *to, const void *symbol, size_t size,
                                          size_t offset, int kind, cudaStream_t stream) {
    ENTER();
    return fail(copy_symbol(symbol, to, size, offset, kind, stream, false, false));
}
