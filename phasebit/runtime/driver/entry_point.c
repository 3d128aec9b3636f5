/* Functions by name, for programs that do not link with the driver; and tensor maps, for kernels
 * whose copy engine reads them (TMA). */
#define _GNU_SOURCE
#include "driver.h"
#include <dlfcn.h>
#include <stdio.h>

/* `cuMemAlloc` is `cuMemAlloc_v2`, as in cuda.h: the newest one that there is. */
API CUresult cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags,
                                 int *status) {
    (void)version, (void)flags;
    WANT(name && function);
    static void *own;
    Dl_info about;
    if (!own && dladdr((void *)cuGetProcAddress_v2, &about))
        own = dlopen(about.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *function = NULL;
    for (int newest = 4; newest > 0 && !*function; newest--) {
        char versioned[256];
        snprintf(versioned, sizeof versioned, newest > 1 ? "%s_v%d" : "%s", name, newest);
        *function = dlsym(own, versioned);
    }
    if (status)
        *status = *function ? 0 : 1; /* found, not found */
    return *function || status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

API CUresult cuGetProcAddress(const char *name, void **function, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, function, version, flags, NULL);
}

static void *encoder(const char *name) {
    void *function = NULL;
    cudaGetDriverEntryPoint(name, &function, 0, NULL);
    return function;
}

API CUresult cuTensorMapEncodeTiled(void *map, unsigned type, unsigned rank, void *address,
                                    const uint64_t *dims, const uint64_t *strides,
                                    const unsigned *box, const unsigned *steps,
                                    unsigned interleave, unsigned swizzle, unsigned promotion,
                                    unsigned fill) {
    CUresult (*encode)(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *,
                       const unsigned *, const unsigned *, unsigned, unsigned, unsigned,
                       unsigned) = encoder("cuTensorMapEncodeTiled");
    return encode ? told(encode(map, type, rank, address, dims, strides, box, steps, interleave,
                                swizzle, promotion, fill))
                  : CUDA_ERROR_NO_DEVICE;
}

API CUresult cuTensorMapEncodeIm2col(void *map, unsigned type, unsigned rank, void *address,
                                     const uint64_t *dims, const uint64_t *strides,
                                     const int *lower, const int *upper, unsigned channels,
                                     unsigned pixels, const unsigned *steps, unsigned interleave,
                                     unsigned swizzle, unsigned promotion, unsigned fill) {
    CUresult (*encode)(void *, unsigned, unsigned, void *, const uint64_t *, const uint64_t *,
                       const int *, const int *, unsigned, unsigned, const unsigned *, unsigned,
                       unsigned, unsigned, unsigned) = encoder("cuTensorMapEncodeIm2col");
    return encode ? told(encode(map, type, rank, address, dims, strides, lower, upper, channels,
                                pixels, steps, interleave, swizzle, promotion, fill))
                  : CUDA_ERROR_NO_DEVICE;
}
