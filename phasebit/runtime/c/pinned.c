/* Host memory that the device sees, for programs that bring their own: registered pages, and what
 * a pointer is. */
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

/* cudaHostRegister exchanges the pages under the program's memory for pages of the arena, with
 * the same contents at the same host address. Pages are whole: neighbours of the registered
 * bytes move along, unchanged. */
struct registered {
    char *first; /* page-aligned */
    size_t size;
    uint64_t address; /* of `first`, for the device */
    void *asked;
    struct registered *next;
};
static struct registered *registered;
static const uintptr_t page = 4096;

static struct registered *registration_of(const void *pointer) {
    for (struct registered *r = registered; r; r = r->next)
        if ((uintptr_t)pointer - (uintptr_t)r->first < r->size)
            return r;
    return NULL;
}

/* Put a new mapping, filled with what is there now, in the place of the old one. The old pages may
 * hold this thread's stack, so the exchange runs on a stack of its own and writes nowhere else. */
static struct exchange {
    void *first;
    size_t size;
    int flags, file;
    uint64_t offset;
    bool done;
    ucontext_t caller, own;
} job;
static char exchange_stack[1 << 16] __attribute__((aligned(4096)));

static void do_exchange(void) {
    void *made =
        mmap(NULL, job.size, PROT_READ | PROT_WRITE, job.flags, job.file, job.offset);
    if (made == MAP_FAILED)
        return;
    memcpy(made, job.first, job.size);
    job.done = mremap(made, job.size, job.size, MREMAP_MAYMOVE | MREMAP_FIXED, job.first) !=
               MAP_FAILED;
}

static bool exchange(void *first, size_t size, int flags, int file, uint64_t offset) {
    job = (struct exchange){first, size, flags, file, offset, .done = false};
    getcontext(&job.own);
    job.own.uc_stack.ss_sp = exchange_stack;
    job.own.uc_stack.ss_size = sizeof exchange_stack;
    job.own.uc_link = &job.caller;
    makecontext(&job.own, do_exchange, 0);
    swapcontext(&job.caller, &job.own);
    return job.done;
}

/* Whether all of these pages are the program's to read. */
static bool readable(uintptr_t first, uintptr_t end) {
    char byte;
    for (uintptr_t at = first; at < end; at += page) {
        struct iovec here = {&byte, 1}, there = {(void *)at, 1};
        if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) < 0 && errno == EFAULT)
            return false;
    }
    return true;
}

API cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags) {
    ENTER();
    (void)flags;
    if (!pointer || !size)
        return fail(cudaErrorInvalidValue);
    if (in_arena(pointer))
        return fail(cudaErrorHostMemoryAlreadyRegistered);
    uintptr_t first = (uintptr_t)pointer & -page;
    uintptr_t end = ((uintptr_t)pointer + size + page - 1) & -page;
    for (struct registered *r = registered; r; r = r->next)
        if ((uintptr_t)r->first < end && first < (uintptr_t)r->first + r->size)
            return fail(cudaErrorHostMemoryAlreadyRegistered);
    uint64_t address;
    cudaError_t error = CALL(OP_ALLOCATE, &address, sizeof address, end - first, SPACE_HOST, 0);
    if (error)
        return fail(error);
    if (!readable(first, end)) {
        CALL(OP_FREE, NULL, 0, address, 1 << SPACE_HOST);
        return fail(cudaErrorInvalidValue);
    }
    struct registered *made = malloc(sizeof *made);
    *made = (struct registered){(char *)first, end - first, address, pointer, registered};
    registered = made;
    if (!exchange((void *)first, end - first, MAP_SHARED, arena_file(),
                  arena_offset((void *)address)))
        return fail(cudaErrorMemoryAllocation);
    return cudaSuccess;
}

API cudaError_t cudaHostUnregister(void *pointer) {
    ENTER();
    struct registered **at = &registered;
    while (*at && (*at)->asked != pointer)
        at = &(*at)->next;
    if (!*at)
        return fail(cudaErrorHostMemoryNotRegistered);
    struct registered *found = *at;
    *at = found->next;
    cudaError_t error = CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, 0);
    if (!exchange(found->first, found->size, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
        error = cudaErrorMemoryAllocation;
    if (!error)
        error = CALL(OP_FREE, NULL, 0, found->address, 1 << SPACE_HOST);
    free(found);
    return fail(error);
}

API cudaError_t cudaHostGetDevicePointer(void **device, void *host, unsigned flags) {
    ENTER();
    (void)flags;
    struct registered *found = registration_of(host);
    if (!device || (!found && !in_arena(host)))
        return fail(cudaErrorInvalidValue);
    *device = found ? (void *)(found->address + ((char *)host - found->first)) : host;
    return cudaSuccess;
}

API cudaError_t cudaHostGetFlags(unsigned *flags, void *host) {
    ENTER();
    if (!flags || (!registration_of(host) && !in_arena(host)))
        return fail(cudaErrorInvalidValue);
    *flags = 2; /* mapped */
    return cudaSuccess;
}

API cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *answer,
                                         const void *pointer) {
    ENTER_FAULTLESS();
    if (!answer)
        return fail(cudaErrorInvalidValue);
    memset(answer, 0, sizeof *answer);
    struct registered *found = registration_of(pointer);
    uint64_t range[4];
    if (found) {
        answer->type = 1;
        answer->hostPointer = (void *)pointer;
        answer->devicePointer = (void *)(found->address + ((char *)pointer - found->first));
    } else if (in_arena(pointer) && !CALL(OP_RANGE, range, sizeof range, (uint64_t)pointer)) {
        static const int types[] = {2, 1, 3, 2}; /* by enum space: device, host, managed, symbol */
        answer->type = types[range[2]];
        answer->devicePointer = (void *)pointer;
        answer->device = (int)range[3];
        if (range[2] == SPACE_HOST || range[2] == SPACE_MANAGED)
            answer->hostPointer = (void *)pointer;
    } else {
        answer->device = -2; /* cudaInvalidDeviceId: memory that CUDA does not know */
        answer->hostPointer = (void *)pointer;
    }
    return cudaSuccess;
}
