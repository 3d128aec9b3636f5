/* Results, for every program that checks its calls: names and texts, and calls that are missing. */
#include "driver.h"

static const struct {
    const char *name;
    int number;
} results[] = {
#define X(name, number) {#name, number},
#include "errors.h"
#undef X
};

/* Both number alike, but for what only the runtime tells apart. */
CUresult told(cudaError_t error) {
    switch (error) {
    case cudaErrorInvalidPitchValue:
    case cudaErrorInvalidMemcpyDirection:
        return CUDA_ERROR_INVALID_VALUE;
    case cudaErrorInvalidSymbol:
    case cudaErrorInvalidDeviceFunction:
        return CUDA_ERROR_NOT_FOUND;
    default:
        return error;
    }
}

CUresult missing(const char *call) { return told(phasebit_missing(call)); }

static const char *name_of(CUresult result) {
    for (size_t i = 0; i < COUNT(results); i++)
        if (results[i].number == result)
            return results[i].name;
    return NULL;
}

API CUresult cuGetErrorName(CUresult result, const char **name) {
    WANT(name);
    *name = name_of(result);
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

API CUresult cuGetErrorString(CUresult result, const char **text) {
    WANT(text);
    *text = name_of(result) ? cudaGetErrorString(result) : NULL;
    return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
