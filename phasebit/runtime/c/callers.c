/* Where the program calls from, for the device half, which finds the lines. */
#define _GNU_SOURCE
#include "runtime.h"
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <string.h>

static int note_base(struct dl_phdr_info *first, size_t size, void *base) {
    (void)size;
    *(uintptr_t *)base = first->dlpi_addr;
    return 1; /* the program comes first */
}

size_t callers(uint64_t addresses[MOST_CALLERS]) {
    void *calls[MOST_CALLERS];
    size_t count = 0;
    uintptr_t base = 0; /* the program lies so far behind where its file says */
    dl_iterate_phdr(note_base, &base);
    for (int i = backtrace(calls, MOST_CALLERS) - 1; i >= 0; i--) {
        Dl_info info;
        if (dladdr(calls[i], &info) && !strcmp(info.dli_fname, program_invocation_name))
            addresses[count++] = (uintptr_t)calls[i] - base - 1; /* within the call */
    }
    return count;
}
