/* What the files of the host half share. One API call looks like this:
 *
 *     API cudaError_t cudaFoo(int *answer) {
 *         ENTER();                       // lock, connect, return a sticky error
 *         if (!answer)
 *             return fail(cudaErrorInvalidValue);
 *         return fail(CALL(OP_FOO, answer, sizeof *answer, 1, 2));
 *     }
 *
 * `fail` remembers an error for cudaGetLastError and passes its argument through; the lock that
 * ENTER takes is released by whichever return ends the function. */
#pragma once
#include "abi.h"
#include "protocol.h"
#include <stdbool.h>

/* 13.0: the interface that the stand-in follows. */
enum { RUNTIME_VERSION = 13000 };

#define API __attribute__((visibility("default")))
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* error.c */
cudaError_t fail(cudaError_t error);
const char *name_of(cudaError_t error);
/* This thread's last error is that of a launch by `<<<>>>`, and nobody has asked for it yet. */
extern _Thread_local bool unasked;
void say_there(int file); /* what follows is for that file, and not for standard error */
void say_raw(const char *text, size_t size); /* a line; async-signal-safe */
/* A line that accuses nobody begins with NOTE of `protocol.h`. */
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The end of every call that the stand-in does not have. */
cudaError_t missing(const char *call);

/* wire.c: the connection to the device half. */
struct guard {
    cudaError_t error;
};
struct guard enter(bool faultless);
void leave(struct guard *guard);
#define ENTER() ENTER_AS(false)
/* For the calls that a program may still make when a kernel has failed. */
#define ENTER_FAULTLESS() ENTER_AS(true)
#define ENTER_AS(faultless)                                                                        \
    struct guard guard_ __attribute__((cleanup(leave))) = enter(faultless);                        \
    if (guard_.error)                                                                              \
        return fail(guard_.error)

/* Send words and bytes; wait for the answer, of which at most `capacity` bytes go to `reply`.
 * The answer's status. */
cudaError_t call_device(enum op op, const uint64_t *words, size_t count, const void *bytes,
                        size_t size, void *reply, size_t capacity);
/* The same for what is not answered. */
void post_device(enum op op, const uint64_t *words, size_t count, const void *bytes, size_t size);
#define WORDS(...) (uint64_t[]){__VA_ARGS__}, sizeof((uint64_t[]){__VA_ARGS__}) / 8
#define CALL(op, reply, capacity, ...) call_device(op, WORDS(__VA_ARGS__), NULL, 0, reply, capacity)
#define POST(op, ...) post_device(op, WORDS(__VA_ARGS__), NULL, 0)

void forget_device(void);
/* Write what kernels printed, as a GPU does at synchronising calls. */
void flush_printed(void);
/* How many launches were sent, and how many are finished (read without asking). */
uint64_t launches_sent(void);
uint64_t launches_finished(void);
bool connected(void);
uint64_t devices(void);

/* arena.c: device memory in this process. */
bool map_arena(int file, uint64_t base, uint64_t span);
bool in_arena(const void *pointer);
/* Where this library itself may read and write what `pointer` points to. */
void *reachable(const void *pointer);
/* Let the program's own code touch these pages, or not. */
void open_pages(uint64_t address, uint64_t size);
void close_pages(uint64_t address, uint64_t size);
void keep_pages_open(void); /* all of them, for good */
volatile uint64_t *finished_word(void);
int arena_file(void);
uint64_t arena_offset(const void *pointer);

/* registry.c: what the program registered before main. */
struct module {
    uint64_t number;
    const void *blob;
    size_t size;
    bool sent;
    struct module *next;
};
struct parameter {
    uint64_t offset, size;
};
/* The words of a kernel's description; same order as Device._kernel in server.py. */
struct facts {
    uint64_t number, shared, local, constant, registers, max_threads, cluster[3];
    uint64_t capability, block_shared, parameter_bytes, parameters;
};
enum { MOST_PARAMETERS = 4096 };
struct kernel {
    const void *host;
    const char *name;
    struct module *module;
    bool asked;
    cudaError_t error;
    struct facts facts;
    struct parameter *parameters;
    uint64_t dynamic_shared; /* cudaFuncAttributeMaxDynamicSharedMemorySize */
    int carveout, non_portable_cluster;
    struct kernel *next;
};
struct variable {
    const void *host;
    void **managed; /* the program's pointer to a __managed__ variable, or NULL */
    const char *name;
    struct module *module;
    uint64_t address[MOST_DEVICES], size; /* each device has its own */
    struct variable *next;
};
/* By host stub or by handle; asks the device half once. NULL and *error. */
struct kernel *find_kernel(const void *function, cudaError_t *error);
struct variable *find_variable(const void *symbol, cudaError_t *error);
uint64_t own_address(const struct variable *variable); /* the current device's */
/* The program's own code was compiled for the runtime, which makes contexts by itself. */
extern bool uses_runtime;
/* A copy of code that the program brings: a fat binary, machine code, or text. */
struct module *add_module(const void *code);
void forget_module(struct module *module);
struct kernel *kernel_of_module(struct module *module, const char *name, cudaError_t *error);
/* Send modules not sent yet; after the first connection, before any question about them. */
void send_modules(void);
void forget_device_answers(void);

/* device.c */
int current_device(void); /* of this thread */
bool device_exists(int device);
uint64_t stack_limit(void); /* cudaLimitStackSize, bytes a thread */
uint64_t heap_limit(void);  /* cudaLimitMallocHeapSize, bytes */

/* callers.c: where in the program's own file this call comes from, outermost first: how many
 * addresses, as that file has them. */
enum { MOST_CALLERS = 16 };
size_t callers(uint64_t addresses[MOST_CALLERS]);

/* function.c */
uint64_t dynamic_shared_allowed(const struct kernel *kernel);

/* stream.c */
enum { STREAM_ATTRIBUTES = 20 }; /* cudaLaunchAttributeID is below */
struct stream {
    uint64_t number;
    int device;
    unsigned flags;
    int priority;
    uint64_t last_launch;
    struct graph *capture; /* what the stream captures into, or NULL */
    bool captures_first;   /* it began the capture */
    char attributes[STREAM_ATTRIBUTES][64];
    struct stream *next;
};
struct stream *find_stream(cudaStream_t handle); /* NULL: not a stream */

/* values.c */
cudaError_t stream_wait_value(cudaStream_t stream, uint64_t address, unsigned number,
                              unsigned flags);
cudaError_t stream_write_value(cudaStream_t stream, uint64_t address, unsigned number,
                               unsigned flags);
bool is_legacy(const struct stream *stream);
void leave_capture(const struct graph *graph); /* all streams that capture into it */
bool capturing(const struct graph *graph); /* into this one, or NULL: into any */
cudaError_t run_host_function(cudaHostFn_t function, void *data, cudaStream_t stream);

/* launch.c */
struct shape {
    dim3 grid, block, cluster;
    size_t shared;
    cudaStream_t stream;
    bool cooperative;
    bool dependent; /* it may begin before the kernel before it in its stream has ended */
};
cudaError_t launch(const void *function, struct shape shape, void **arguments);
/* Give the shape the kernel's own cluster, and check it. */
cudaError_t complete_shape(const struct kernel *kernel, struct shape *shape);

/* copy.c */
struct block { /* rows of `width` bytes, `pitch` apart; slices of rows, `slice` apart */
    const void *at;
    size_t pitch, slice;
};
cudaError_t copy(struct block to, struct block from, struct cudaExtent extent, int kind,
                 cudaStream_t stream, bool wait);
cudaError_t fill(void *at, size_t pitch, int value, size_t width, size_t height,
                 cudaStream_t stream);
