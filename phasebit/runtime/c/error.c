/* Errors: names and texts, the last error of each thread, and calls that are missing. */
#include "runtime.h"
#include <stdarg.h>
#include <stdio.h>

static const struct {
    const char *name;
    int number;
    const char *text;
} errors[] = {
#define X(name, number, text) {#name, number, text},
#include "errors.h"
#undef X
};

static _Thread_local cudaError_t last_error;

void say(const char *format, ...) {
    va_list rest;
    va_start(rest, format);
    fputs("phasebit: ", stderr);
    vfprintf(stderr, format, rest);
    fputc('\n', stderr);
    va_end(rest);
}

cudaError_t fail(cudaError_t error) {
    if (error && error != cudaErrorNotReady) /* an answer, not an error; seen so on an H200 */
        last_error = error;
    return error;
}

cudaError_t missing(const char *call) {
    say("the program called %s, which the stand-in for the CUDA runtime does not have; "
        "run the program on a GPU, or do without this call",
        call);
    return fail(cudaErrorNotSupported);
}

/* These two ask nobody: an error of a kernel that still runs is not seen here, as on a GPU. What
 * is sticky about an error is that the next call returns it again, not that it stays here. */
API cudaError_t cudaPeekAtLastError(void) { return last_error; }

API cudaError_t cudaGetLastError(void) {
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

API const char *cudaGetErrorName(cudaError_t error) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].number == error)
            return errors[i].name;
    return "unrecognized error code";
}

API const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].number == error)
            return errors[i].text;
    return "unrecognized error code";
}
