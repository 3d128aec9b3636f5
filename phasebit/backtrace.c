// Linked into every program of a %%cuda cell: when the program crashes, or is asked by SIGUSR1
// because its time is up, it writes where it is into the file that PHASEBIT_STOPPED names, and
// ends. Addresses within the program, innermost first: where it was interrupted, then the calls
// that have not returned.
#define _GNU_SOURCE
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

extern char __executable_start;
extern char etext;
static int file = -1;
static uintptr_t base;  // the program lies in memory so far behind where its file says

static int note_base(struct dl_phdr_info* first, size_t size, void* unused) {
    (void)size, (void)unused;
    base = first->dlpi_addr;
    return 1;  // the program comes first, and the libraries do not matter
}

static void write_address(uintptr_t address) {
    char text[2 * sizeof address + 1];
    for (int i = sizeof text - 2; i >= 0; --i, address >>= 4) {
        text[i] = "0123456789abcdef"[address & 15];
    }
    text[sizeof text - 1] = '\n';
    ssize_t written = write(file, text, sizeof text);
    (void)written;
}

static void say(int number) {
    void* frames[64];
    int count = backtrace(frames, 64);
    // Frame 2 was interrupted (0 is this one, 1 what called it). The others wait for a call to
    // return, to the address after the call.
    for (int depth = 0; depth < count; ++depth) {
        char* at = frames[depth];
        if (at >= &__executable_start && at < &etext) {
            write_address((uintptr_t)at - base - (depth != 2));
        }
    }
    signal(number, SIG_DFL);
    raise(number);
}

__attribute__((constructor)) static void listen(void) {
    const char* name = getenv("PHASEBIT_STOPPED");
    if (!name) return;
    file = open(name, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dl_iterate_phdr(note_base, NULL);
    void* frame;
    backtrace(&frame, 1);  // loads the unwinder now: a signal handler may not
    const int numbers[] = {SIGUSR1, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; ++i) signal(numbers[i], say);
}
