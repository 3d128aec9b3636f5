/* Device memory in this process, mapped twice.
 *
 * At its own address, where pages of cudaMalloc are closed, so that host code which follows a
 * device pointer stops there and is told so; and a second time, open, for this library's own
 * copies. Both show the file that the device half's arrays lie in: nothing is copied to launch. */
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static uint64_t arena, arena_span;
static char *alias;
static int arena_fd = -1;
static struct sigaction before;

/* Only async-signal-safe calls from here on. */
static void write_hex(char *at, uint64_t value) {
    for (int digit = 11; digit >= 0; digit--, value >>= 4)
        at[digit] = "0123456789abcdef"[value & 15];
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    if (in_arena(info->si_addr)) {
        char text[] = "host code touched device memory at 0x____________; copy it with "
                      "cudaMemcpy, or allocate it with cudaMallocManaged\n";
        write_hex(strchr(text, '_'), (uint64_t)info->si_addr);
        say_raw(text, sizeof text - 1);
    }
    sigaction(number, &before, NULL); /* return, fault again, and die of it as usual */
}

bool map_arena(int file, uint64_t base, uint64_t span) {
    int flags = MAP_SHARED | MAP_NORESERVE;
    void *own = mmap((void *)base, span, PROT_NONE, flags | MAP_FIXED_NOREPLACE, file, 0);
    if (own != (void *)base) {
        say("cannot map device memory at 0x%llx: %s", (unsigned long long)base,
            own == MAP_FAILED ? strerror(errno) : "the address is taken");
        return false;
    }
    alias = mmap(NULL, span + CONTROL_BYTES, PROT_READ | PROT_WRITE, flags, file, 0);
    if (alias == MAP_FAILED) {
        say("cannot map device memory a second time: %s", strerror(errno));
        return false;
    }
    madvise(own, span, MADV_DONTDUMP);
    madvise(alias, span, MADV_DONTDUMP);
    arena = base;
    arena_span = span;
    arena_fd = file;
    struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, &action, &before);
    return true;
}

int arena_file(void) { return arena_fd; }
uint64_t arena_offset(const void *pointer) { return (uint64_t)pointer - arena; }

bool in_arena(const void *pointer) { return (uint64_t)pointer - arena < arena_span; }

void *reachable(const void *pointer) {
    return in_arena(pointer) ? alias + arena_offset(pointer) : (void *)pointer;
}

void open_pages(uint64_t address, uint64_t size) {
    mprotect((void *)address, size, PROT_READ | PROT_WRITE);
}

static bool kept_open;

void keep_pages_open(void) {
    open_pages(arena, arena_span);
    kept_open = true;
}

void close_pages(uint64_t address, uint64_t size) {
    if (kept_open)
        return;
    mprotect((void *)address, size, PROT_NONE);
}

volatile uint64_t *finished_word(void) { return (volatile uint64_t *)(alias + arena_span); }
