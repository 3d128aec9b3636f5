/* The connection to the device half: one socket, one lock, messages as protocol.py has them.
 *
 * In a process that is itself the device half (in_process.py) a function stands for the socket. */
#define _GNU_SOURCE
#include "runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static int device = -1;
static pid_t owner; /* the process that connected; its forks may not use the connection */
static cudaError_t fault;
static uint64_t device_count = 1;
static uint64_t sent_launches;
static bool launch_blocking; /* CUDA_LAUNCH_BLOCKING=1 */

typedef int (*served_t)(uint32_t op, const uint64_t *words, uint64_t count, const void *bytes,
                        uint64_t size, void *reply, uint64_t capacity, int32_t *fault);
static served_t served;

static char *printed;
static size_t printed_size;


bool connected(void) { return device >= 0 || served; }
uint64_t devices(void) { return device_count; }
uint64_t launches_sent(void) { return sent_launches; }
uint64_t launches_finished(void) { return connected() ? *finished_word() : 0; }

static void gone(void) {
    /* The device half says itself why it ended; there is no going on without it. */
    if (errno == EBADF || errno == ENOTSOCK)
        say("the program has closed files that are not its own, and with them the device: let it "
            "close what it has opened");
    device = -1;
    _exit(125);
}

static void send_all(struct iovec *parts, size_t count) {
    while (count) {
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
        ssize_t done = sendmsg(device, &message, MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            gone();
        while (count && (size_t)done >= parts->iov_len) {
            done -= parts->iov_len;
            parts++, count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + done;
            parts->iov_len -= done;
        }
    }
}

static void receive(void *at, size_t size) {
    while (size) {
        ssize_t done = recv(device, at, size, 0);
        if (done < 0 && errno == EINTR)
            continue;
        if (!done)
            errno = 0;
        if (done <= 0)
            gone();
        at = (char *)at + done;
        size -= done;
    }
}

static void send_message(enum op op, const uint64_t *words, size_t count, const void *bytes,
                         size_t size) {
    struct {
        uint32_t op, words;
        uint64_t bytes;
    } head = {op, count, size};
    struct iovec parts[] = {
        {&head, sizeof head}, {(void *)words, count * 8}, {(void *)bytes, size}};
    send_all(parts, COUNT(parts));
}

static void keep_printed(size_t size) {
    char *longer = realloc(printed, printed_size + size);
    if (!longer)
        abort();
    printed = longer;
    receive(printed + printed_size, size);
    printed_size += size;
}

static cudaError_t receive_reply(void *reply, size_t capacity) {
    struct {
        uint32_t kind;
        int32_t status, fault;
        uint32_t bytes;
    } head;
    for (;;) {
        receive(&head, sizeof head);
        if (head.kind == KIND_REPLY)
            break;
        keep_printed(head.bytes);
    }
    if (fault != cudaErrorDevicesUnavailable)
        fault = head.fault;
    size_t taken = head.bytes < capacity ? head.bytes : capacity;
    receive(reply, taken);
    for (size_t left = head.bytes - taken; left;) {
        char rest[256];
        size_t part = left < sizeof rest ? left : sizeof rest;
        receive(rest, part);
        left -= part;
    }
    return head.status;
}

cudaError_t call_device(enum op op, const uint64_t *words, size_t count, const void *bytes,
                        size_t size, void *reply, size_t capacity) {
    if (served)
        return served(op, words, count, bytes, size, reply, capacity, &fault);
    send_message(op, words, count, bytes, size);
    return receive_reply(reply, capacity);
}

void post_device(enum op op, const uint64_t *words, size_t count, const void *bytes, size_t size) {
    if (served)
        served(op, words, count, bytes, size, NULL, 0, &fault);
    else
        send_message(op, words, count, bytes, size);
    if (op != OP_LAUNCH)
        return;
    sent_launches++;
    if (launch_blocking)
        CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, 0);
}

void flush_printed(void) {
    fwrite(printed, 1, printed_size, stdout);
    printed_size = 0;
}

/* Processes that a program has forked before its first call find the same device. It is for one at
 * a time: a lock on the memory belongs to a process, and ends with it (fcntl(2)). */
static bool alone(int memory_fd) {
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    return !fcntl(memory_fd, F_SETLK, &lock) || (errno != EAGAIN && errno != EACCES);
}

/* Find the device in the environment. The variable is taken out again: a program started by
 * this one has no device unless it is run with its own. */
static cudaError_t connect_device(void) {
    static bool told, broken;
    if (broken)
        return cudaErrorInitializationError; /* it has been said why */
    const char *where = getenv(ENVIRONMENT);
    int socket_fd, memory_fd, words_fd;
    if (!where || sscanf(where, "%d,%d,%d", &socket_fd, &memory_fd, &words_fd) != 3) {
        if (!told)
            say("no device: start this program with `python -m phasebit run PROGRAM`");
        told = true;
        return cudaErrorNoDevice;
    }
    if (!alone(memory_fd)) {
        if (!told) {
            say_there(words_fd);
            say("another process of this program has the device, which the stand-in gives to one "
                "at a time: let that one end first");
        }
        told = true;
        return cudaErrorDevicesUnavailable;
    }
    unsetenv(ENVIRONMENT);
    fcntl(socket_fd, F_SETFD, FD_CLOEXEC);
    fcntl(memory_fd, F_SETFD, FD_CLOEXEC);
    say_there(words_fd);
    device = socket_fd;
    owner = getpid();
    const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");
    launch_blocking = blocking && *blocking == '1';
    uint64_t answer[3] = {0, 0, 1};
    CALL(OP_HELLO, answer, sizeof answer, 0);
    device_count = answer[2];
    if (!map_arena(memory_fd, answer[0], answer[1])) {
        device = -1;
        broken = true;
        return cudaErrorInitializationError;
    }
    return cudaSuccess;
}

/* This process is the device: `function` answers from now on, NULL: nobody. An error of a kernel
 * is forgotten. Memory stays mapped for good, open to the process's own code. */
API cudaError_t phasebit_serve(served_t function, int memory_fd) {
    static bool mapped;
    served = function;
    owner = getpid();
    fault = cudaSuccess;
    uint64_t answer[2];
    if (!function || mapped)
        return cudaSuccess;
    CALL(OP_HELLO, answer, sizeof answer, 0);
    mapped = map_arena(memory_fd, answer[0], answer[1]);
    if (!mapped)
        return cudaErrorInitializationError;
    keep_pages_open();
    return cudaSuccess;
}

/* The context died of an error: on an H200 the reset itself succeeds, and nothing after it. */
void forget_device(void) {
    if (fault)
        fault = cudaErrorDevicesUnavailable;
}

struct guard enter(bool faultless) {
    pthread_mutex_lock(&lock);
    struct guard guard = {cudaSuccess};
    if (!connected())
        guard.error = connect_device();
    else if (getpid() != owner)
        guard.error = cudaErrorInitializationError; /* forked after the device was opened */
    else if (!faultless || fault == cudaErrorDevicesUnavailable)
        guard.error = fault;
    if (!guard.error)
        send_modules();
    return guard;
}

void leave(struct guard *guard) {
    (void)guard;
    pthread_mutex_unlock(&lock);
}

/* A program that ends waits for its kernels, so that what they did wrong is reported. What they
 * printed and nobody synchronised for is lost, as on a GPU, but not without a word. */
__attribute__((destructor)) static void finish(void) {
    if (device < 0 || getpid() != owner)
        return;
    CALL(OP_SYNCHRONIZE, NULL, 0, UINT64_MAX, 0);
    if (printed_size)
        say(NOTE "%zu bytes that kernels printed are lost: the program ended without "
            "cudaDeviceSynchronize()",
            printed_size);
}
