/* What CuTe DSL's compiled host code calls: its runtime library, on the stand-ins for CUDA's.
 *
 * Most of its calls are a call of CUDA's with an underscore before it; those are generated beside
 * this file (cute_library.py). The others are here. */
#include "driver.h"
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

cudaError_t cudaStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);

API cudaError_t _cudaLaunchKernel(const void *kernel, unsigned gx, unsigned gy, unsigned gz,
                                  unsigned bx, unsigned by, unsigned bz, void **arguments,
                                  size_t shared, CUstream stream) {
    cudaLaunchConfig_t config = {{gx, gy, gz}, {bx, by, bz}, shared, stream, NULL, 0};
    return cudaLaunchKernelExC(&config, kernel, arguments);
}

API cudaError_t _cudaLaunchKernelEx(const cudaLaunchConfig_t *config, const void *kernel,
                                    void **arguments) {
    return cudaLaunchKernelExC(config, kernel, arguments);
}

API cudaError_t _cudaStreamWaitEvent(CUstream stream, CUevent event) {
    return cudaStreamWaitEvent(stream, event, 0);
}

API const char *cuda_dialect_get_error_name(cudaError_t error) { return cudaGetErrorName(error); }

API void cuda_dialect_print_on_error(cudaError_t error) {
    if (error)
        fprintf(stderr, "%s: %s\n", cudaGetErrorName(error), cudaGetErrorString(error));
}

API void cuda_dialect_assert_success(cudaError_t error) {
    cuda_dialect_print_on_error(error);
    if (error)
        abort();
}

/* Load a module's code when it is first wanted, then tell each device of it. */
API int cuda_dialect_init_library_once(void **library, int (*load)(void **),
                                       int (*prepare)(void **, int),
                                       void (*raise)(const char *, const char *)) {
    void *loaded = NULL;
    if (*library)
        return 0;
    cudaError_t error = load(&loaded);
    if (!error && prepare)
        error = prepare(&loaded, 0);
    if (error && raise)
        raise("RuntimeError", cudaGetErrorString(error));
    if (!error)
        *library = loaded;
    return error ? -1 : 0;
}

API void cuda_dialect_unload_library_once(void **library) {
    CUmodule loaded = *library;
    *library = NULL;
    if (loaded)
        cudaLibraryUnload(loaded);
}

/* Errors of functions that were compiled for TVM's interface: the kind and the text are Python's. */
typedef void raise_in_python(const char *kind, const char **parts, int32_t count);

API void CuteDSLRT_TVMFFISetRaisedCudaError(raise_in_python *raise, int32_t code) {
    const char *parts[] = {cudaGetErrorName(code), ": ", cudaGetErrorString(code)};
    raise("RuntimeError", parts, 3);
}

API void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(
    raise_in_python *raise, int32_t gx, int32_t gy, int32_t gz, int32_t bx, int32_t by, int32_t bz,
    int32_t threads, int64_t shared, int32_t device, int32_t max_threads, int32_t max_bx,
    int32_t max_by, int32_t max_bz, int32_t max_gx, int32_t max_gy, int32_t max_gz,
    int32_t max_shared, int32_t max_optin, const char *violation, const char *file, int32_t line,
    int32_t column, int32_t end) {
    const char *parts[] = {"the launch cannot be: ", violation};
    raise("RuntimeError", parts, 2);
}
