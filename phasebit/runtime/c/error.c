/* Errors, for every program that checks its calls: names and texts, the last error of each
 * thread, and calls that are missing. */
#define _GNU_SOURCE
#include "runtime.h"
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* On standard error a line says who speaks; a file of its own needs no such mark. */
static int words = STDERR_FILENO;

void say_there(int file) {
    words = file;
    if (file != STDERR_FILENO)
        fcntl(file, F_SETFD, FD_CLOEXEC);
}

void say_raw(const char *text, size_t size) {
    static const char mark[] = "phasebit: ";
    if (words != STDERR_FILENO && write(words, text, size) >= 0)
        return;
    ssize_t written = write(STDERR_FILENO, mark, sizeof mark - 1);
    written += write(STDERR_FILENO, text, size);
    (void)written;
}

void say(const char *format, ...) {
    char *text;
    va_list rest;
    va_start(rest, format);
    int size = vasprintf(&text, format, rest);
    va_end(rest);
    if (size < 0)
        return;
    text[size] = '\n'; /* in place of the final zero */
    say_raw(text, size + 1);
    free(text);
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

_Thread_local bool unasked;

static void asked(void) {
    if (!unasked)
        return;
    unasked = false;
    struct guard guard __attribute__((cleanup(leave))) = enter(true);
    if (!guard.error)
        POST(OP_ASKED, gettid());
}

/* These two do not ask the device: an error of a kernel that still runs is not seen here, as on a
 * GPU. What is sticky about an error is that the next call returns it again, not that it stays
 * here. */
API cudaError_t cudaPeekAtLastError(void) {
    asked();
    return last_error;
}

API cudaError_t cudaGetLastError(void) {
    asked();
    cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

const char *name_of(cudaError_t error) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].number == error)
            return errors[i].name;
    return "unrecognized error code";
}

API const char *cudaGetErrorName(cudaError_t error) { return name_of(error); }

API const char *cudaGetErrorString(cudaError_t error) {
    for (size_t i = 0; i < COUNT(errors); i++)
        if (errors[i].number == error)
            return errors[i].text;
    return "unrecognized error code";
}
