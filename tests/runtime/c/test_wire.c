/* The connection, against a device played by a thread: text before answers, answers longer and
 * shorter than asked for, messages larger than a socket buffer, errors that stick. */
#define _GNU_SOURCE
#include "runtime.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(truth)                                                                               \
    do {                                                                                           \
        if (!(truth)) {                                                                            \
            printf("%s:%d: %s\n", __FILE__, __LINE__, #truth);                                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

enum { SPAN = 1 << 20 };
static const uint64_t base = 0x700000000000;
static int ends[2], memory;
static uint64_t launches_seen, bytes_seen;
static int32_t fault_to_tell;

static void read_all(void *at, size_t size) {
    while (size) {
        ssize_t done = read(ends[1], at, size);
        if (done <= 0)
            exit(0);
        at = (char *)at + done;
        size -= done;
    }
}

static void answer(uint32_t kind, int32_t status, const void *bytes, uint32_t size) {
    struct {
        uint32_t kind;
        int32_t status, fault;
        uint32_t bytes;
    } head = {kind, status, fault_to_tell, size};
    /* In pieces, as a socket may deliver them. */
    for (size_t i = 0; i < sizeof head; i++)
        CHECK(write(ends[1], (char *)&head + i, 1) == 1);
    for (uint32_t i = 0; i < size; i++)
        CHECK(write(ends[1], (char *)bytes + i, 1) == 1);
}

static void *play_device(void *unused) {
    (void)unused;
    for (;;) {
        struct {
            uint32_t op, words;
            uint64_t bytes;
        } head;
        read_all(&head, sizeof head);
        uint64_t words[64];
        read_all(words, head.words * 8);
        char *bytes = malloc(head.bytes + 1);
        read_all(bytes, head.bytes);
        bytes_seen += head.bytes;
        free(bytes);
        uint64_t numbers[100] = {base, SPAN, 3, 4, 5};
        switch (head.op) {
        case OP_LAUNCH:
            launches_seen++;
            break;
        case OP_HELLO:
            answer(KIND_REPLY, 0, numbers, 16);
            break;
        case OP_SYNCHRONIZE:
            answer(KIND_TEXT, 0, "hello ", 6);
            answer(KIND_TEXT, 0, "world\n", 6);
            answer(KIND_REPLY, fault_to_tell, NULL, 0);
            break;
        case OP_RANGE:
            answer(KIND_REPLY, 0, numbers, sizeof numbers);
            break;
        default:
            if (head.op < OP_CALLS)
                answer(KIND_REPLY, 17, NULL, 0);
        }
    }
    return NULL;
}

int main(void) {
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    memory = memfd_create("test", 0);
    CHECK(!ftruncate(memory, SPAN + CONTROL_BYTES));
    char where[64];
    snprintf(where, sizeof where, "%d,%d,2", ends[0], memory);
    setenv(ENVIRONMENT, where, 1);
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, play_device, NULL));

    struct guard guard = enter(false);
    CHECK(!guard.error);
    CHECK(!getenv(ENVIRONMENT)); /* not for programs that this one starts */

    /* Both maps show one file; the program's own is closed. */
    CHECK(in_arena((void *)base) && in_arena((void *)(base + SPAN - 1)));
    CHECK(!in_arena((void *)(base + SPAN)) && !in_arena(&guard));
    CHECK(reachable(&guard) == &guard);
    *(int *)reachable((void *)(base + 4096)) = 42;
    open_pages(base + 4096, 4);
    CHECK(*(int *)(base + 4096) == 42);

    /* A longer answer than asked for is read to its end, a status comes through. */
    uint64_t three[3];
    CHECK(!CALL(OP_RANGE, three, sizeof three, 1));
    CHECK(three[2] == 3);
    CHECK(CALL(OP_FREE, NULL, 0, 1, 2) == 17);

    /* Large messages, and launches that nobody answers. */
    size_t large = 3 << 20;
    char *bytes = calloc(1, large);
    post_device(OP_LAUNCH, WORDS(1), bytes, large);
    POST(OP_LAUNCH, 1);
    CHECK(launches_sent() == 2 && launches_finished() == 0);
    *finished_word() = 1;
    CHECK(launches_finished() == 1);
    CHECK(!CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX));
    CHECK(launches_seen == 2 && bytes_seen == large);

    /* What kernels printed waits for a flush. */
    char text[64] = {0};
    int pipes[2];
    CHECK(!pipe(pipes));
    int saved = dup(1);
    dup2(pipes[1], 1);
    flush_printed();
    fflush(stdout);
    dup2(saved, 1);
    CHECK(read(pipes[0], text, sizeof text) == 12);
    CHECK(!strcmp(text, "hello world\n"));

    /* A fault is returned from the next call on, except from those that answer all the same. */
    leave(&guard);
    fault_to_tell = 700;
    guard = enter(false);
    CHECK(!guard.error);
    CHECK(CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX) == 700);
    leave(&guard);
    guard = enter(false);
    CHECK(guard.error == 700);
    leave(&guard);
    guard = enter(true);
    CHECK(!guard.error);
    leave(&guard);
    forget_device();
    guard = enter(true);
    CHECK(guard.error == cudaErrorDevicesUnavailable);
    leave(&guard);
    _exit(0);
}
