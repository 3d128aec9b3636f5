/* Functions of the driver library that a program asks for by name: for kernels whose copy engine
 * reads a tensor map (TMA). */
#include "runtime.h"
#include <string.h>

/* cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col of the driver library: the emulator checks the
 * arguments and gives the 128 bytes that its copies read. A CUresult is no cudaError_t, but 0 and 1
 * mean the same. */
static cudaError_t encode_tiled(void *map, unsigned type, unsigned rank, void *address,
                                const uint64_t *dims, const uint64_t *strides,
                                const unsigned *box, const unsigned *steps, unsigned interleave,
                                unsigned swizzle, unsigned promotion, unsigned fill) {
    ENTER();
    enum { MOST = 5, DIMS = 3, STRIDES = 8, BOX = 12, STEPS = 17 };
    uint64_t words[26] = {type, rank, (uint64_t)address};
    if (!map || !dims || !box || !steps || (rank > 1 && !strides))
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < rank && i < MOST; i++) {
        words[DIMS + i] = dims[i];
        words[BOX + i] = box[i];
        words[STEPS + i] = steps[i];
        if (i + 1 < rank && i + 1 < MOST)
            words[STRIDES + i] = strides[i];
    }
    words[22] = interleave, words[23] = swizzle, words[24] = promotion, words[25] = fill;
    return call_device(OP_TENSOR_MAP, words, COUNT(words), NULL, 0, map, 128);
}

static cudaError_t encode_im2col(void *map, unsigned type, unsigned rank, void *address,
                                 const uint64_t *dims, const uint64_t *strides, const int *lower,
                                 const int *upper, unsigned channels, unsigned pixels,
                                 const unsigned *steps, unsigned interleave, unsigned swizzle,
                                 unsigned promotion, unsigned fill) {
    ENTER();
    enum { MOST = 5, DIMS = 3, STRIDES = 8, BOX = 12, STEPS = 17, LOWER = 26, UPPER = 29 };
    uint64_t words[32] = {type, rank, (uint64_t)address};
    if (!map || !dims || !strides || !lower || !upper || !steps)
        return cudaErrorInvalidValue;
    for (unsigned i = 0; i < rank && i < MOST; i++) {
        words[DIMS + i] = dims[i];
        words[STEPS + i] = steps[i];
        if (i + 1 < rank && i + 1 < MOST)
            words[STRIDES + i] = strides[i];
        if (i + 2 < rank && i + 2 < MOST)
            words[LOWER + i] = (uint64_t)(int64_t)lower[i],
                      words[UPPER + i] = (uint64_t)(int64_t)upper[i];
    }
    words[BOX] = channels, words[BOX + 1] = pixels;
    words[22] = interleave, words[23] = swizzle, words[24] = promotion, words[25] = fill;
    return call_device(OP_TENSOR_MAP, words, COUNT(words), NULL, 0, map, 128);
}

/* Functions of the driver library: only those that no program of the runtime can do without. */
API cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                                 unsigned version, unsigned long long flags,
                                                 int *status) {
    ENTER();
    (void)version, (void)flags;
    if (!symbol || !function)
        return fail(cudaErrorInvalidValue);
    static const struct {
        const char *name;
        void *function;
    } known[] = {
        {"cuTensorMapEncodeTiled", (void *)encode_tiled},
        {"cuTensorMapEncodeIm2col", (void *)encode_im2col},
        {"cuStreamWaitValue32", (void *)stream_wait_value},
        {"cuStreamWriteValue32", (void *)stream_write_value},
    };
    for (unsigned i = 0; i < COUNT(known); i++)
        if (!strcmp(symbol, known[i].name)) {
            *function = known[i].function;
            if (status)
                *status = 0; /* cudaDriverEntryPointSuccess */
            return cudaSuccess;
        }
    *function = NULL;
    if (status)
        *status = 1; /* cudaDriverEntryPointSymbolNotFound */
    return missing(symbol);
}

API cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function,
                                        unsigned long long flags, int *status) {
    return cudaGetDriverEntryPointByVersion(symbol, function, RUNTIME_VERSION, flags, status);
}
