/* The last error is each thread's own; an answer is not an error. */
#include "runtime.h"
#include <pthread.h>
#include <stdio.h>

cudaError_t cudaGetLastError(void);
cudaError_t cudaPeekAtLastError(void);
static int wrong;

static void *other(void *unused) {
    (void)unused;
    wrong += cudaGetLastError() != 0;
    fail(3);
    wrong += cudaGetLastError() != 3;
    return NULL;
}

int main(void) {
    pthread_t thread;
    wrong += fail(0) != 0;
    wrong += fail(2) != 2;
    wrong += fail(0) != 0; /* success does not clear */
    wrong += fail(cudaErrorNotReady) != cudaErrorNotReady;
    pthread_create(&thread, NULL, other, NULL);
    pthread_join(thread, NULL);
    wrong += cudaPeekAtLastError() != 2;
    wrong += cudaGetLastError() != 2;
    wrong += cudaGetLastError() != 0;
    wrong += missing("cudaFoo") != cudaErrorNotSupported;
    printf("%d wrong\n", wrong);
    return wrong;
}
