/* Registration, for every program, by calls that nvcc writes: before main, each translation unit
 * hands over its fat binary, and says which host function stands for which kernel and which host
 * variable for which device variable. */
#include "runtime.h"
#include <elf.h>
#include <stdlib.h>
#include <string.h>

static struct module *modules;
static struct kernel *kernels;
static struct variable *variables;
static uint64_t next_module = 1;
static bool unsent;

bool uses_runtime;

static void *allocate(size_t size) {
    void *made = calloc(1, size);
    if (!made)
        abort();
    return made;
}

/* What nvcc emits next to a fat binary. */
struct wrapper {
    uint32_t magic, version;
    const void *data;
    const void *rest;
};
struct fat_header {
    uint32_t magic;
    uint16_t version, header;
    uint64_t size;
};

static size_t size_of(const struct fat_header *header) {
    return header->magic == 0xBA55ED50 ? header->header + header->size : 0;
}

/* The bytes of device code that a program hands over by its address alone: a fat binary, machine
 * code, or text that ends with a zero. */
static size_t length_of(const void *code) {
    if (size_of(code))
        return size_of(code);
    const Elf64_Ehdr *elf = code;
    if (memcmp(elf->e_ident, ELFMAG, SELFMAG))
        return strlen(code);
    size_t sections = elf->e_shoff + (size_t)elf->e_shnum * elf->e_shentsize;
    size_t segments = elf->e_phoff + (size_t)elf->e_phnum * elf->e_phentsize;
    return sections > segments ? sections : segments; /* nvcc writes their tables last */
}

/* Device code that was compiled apart: one fat binary for each unit, in a list that ends with
 * NULL. The stand-in links them; here they only become one blob. */
static void gather(struct module *module, const struct fat_header *const *units) {
    for (int i = 0; units[i]; i++)
        module->size += size_of(units[i]);
    char *at = allocate(module->size + 1);
    module->blob = at;
    for (int i = 0; units[i]; i++) {
        memcpy(at, units[i], size_of(units[i]));
        at += size_of(units[i]);
    }
}

enum { LINKED = 2 }; /* the wrapper's version after a device link: `rest` is the list */

API void **__cudaRegisterFatBinary(void *fat) {
    const struct wrapper *wrapper = fat;
    struct module *module = allocate(sizeof *module);
    module->number = next_module++;
    if (wrapper->version == LINKED && wrapper->rest) {
        gather(module, wrapper->rest);
    } else {
        module->blob = wrapper->data;
        module->size = size_of(wrapper->data);
    }
    module->next = modules;
    modules = module;
    unsent = true;
    return (void **)module;
}

enum { WRAPPER = 0x466243b1 }; /* the magic number of `struct wrapper` */

struct module *add_module(const void *code) {
    const struct wrapper *wrapper = code;
    if (wrapper->magic == WRAPPER)
        code = wrapper->data;
    struct module *module = allocate(sizeof *module);
    module->number = next_module++;
    module->size = length_of(code);
    module->blob = memcpy(allocate(module->size + 1), code, module->size);
    module->next = modules;
    modules = module;
    unsent = true;
    send_modules();
    return module;
}

API void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

void forget_module(struct module *module) {
    for (struct kernel *k = kernels; k; k = k->next)
        if (k->module == module)
            k->host = NULL;
    for (struct variable *v = variables; v; v = v->next)
        if (v->module == module)
            v->host = NULL;
    for (struct module **at = &modules; *at; at = &(*at)->next)
        if (*at == module) {
            *at = module->next;
            break;
        }
}

/* Called at exit, or when a library is closed: its names must not be found any more. */
API void __cudaUnregisterFatBinary(void **handle) { forget_module((struct module *)handle); }

API void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                                int thread_limit, void *tid, void *bid, void *bdim, void *gdim,
                                int *wsize) {
    (void)device, (void)thread_limit, (void)tid, (void)bid, (void)bdim, (void)gdim, (void)wsize;
    uses_runtime = true;
    struct kernel *kernel = allocate(sizeof *kernel);
    kernel->host = host;
    kernel->name = name;
    kernel->module = (struct module *)handle;
    kernel->carveout = -1;
    kernel->next = kernels;
    kernels = kernel;
}

static struct variable *register_variable(void **handle, const void *host, const char *name,
                                          size_t size) {
    struct variable *variable = allocate(sizeof *variable);
    variable->host = host;
    variable->name = name;
    variable->module = (struct module *)handle;
    variable->size = size;
    variable->next = variables;
    variables = variable;
    return variable;
}

API void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext,
                           size_t size, int constant, int global) {
    (void)device, (void)ext, (void)constant, (void)global;
    register_variable(handle, host, name, size);
}

API void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name,
                                  int ext, size_t size, int constant, int global) {
    (void)device, (void)ext, (void)constant, (void)global;
    /* The program writes `m` as `*host`, and passes `*host` where it passes the symbol. */
    register_variable(handle, host, name, size)->managed = host;
}

void send_modules(void) {
    if (!unsent)
        return;
    unsent = false;
    for (struct module *m = modules; m; m = m->next) {
        if (m->sent)
            continue;
        m->sent = true;
        post_device(OP_MODULE, WORDS(m->number), m->blob, m->size);
    }
}

/* After cudaDeviceReset: the next use asks again. */
void forget_device_answers(void) {
    unsent = true;
    for (struct module *m = modules; m; m = m->next)
        m->sent = false;
    for (struct kernel *k = kernels; k; k = k->next)
        k->asked = false;
    for (struct variable *v = variables; v; v = v->next)
        memset(v->address, 0, sizeof v->address);
}

uint64_t own_address(const struct variable *variable) {
    return variable->address[current_device()];
}

static cudaError_t locate(struct variable *variable) {
    uint64_t answer[2];
    cudaError_t error =
        call_device(OP_SYMBOL, WORDS(variable->module->number, current_device()), variable->name,
                    strlen(variable->name), answer, sizeof answer);
    if (error)
        return error;
    variable->address[current_device()] = answer[0];
    variable->size = answer[1];
    if (variable->managed) {
        open_pages(answer[0], variable->size);
        *variable->managed = (void *)answer[0];
    }
    return cudaSuccess;
}

/* Called where host code first touches a __managed__ variable, often before main. */
API char __cudaInitModule(void **handle) {
    struct guard guard __attribute__((cleanup(leave))) = enter(false);
    for (struct variable *v = variables; v && !guard.error; v = v->next)
        if (v->managed && !own_address(v) && (void **)v->module == handle)
            guard.error = locate(v);
    fail(guard.error);
    return 1;
}

struct variable *find_variable(const void *symbol, cudaError_t *error) {
    *error = cudaErrorInvalidSymbol;
    for (struct variable *v = variables; v; v = v->next) {
        if (!v->host || (v->host != symbol && !(v->managed && *v->managed == symbol)))
            continue;
        *error = own_address(v) ? cudaSuccess : locate(v);
        return *error ? NULL : v;
    }
    return NULL;
}

static void describe(struct kernel *kernel) {
    struct {
        struct facts facts;
        struct parameter parameters[MOST_PARAMETERS];
    } *answer = allocate(sizeof *answer);
    kernel->error = call_device(OP_KERNEL, WORDS(kernel->module->number), kernel->name,
                                strlen(kernel->name), answer, sizeof *answer);
    if (!kernel->error) {
        size_t bytes = answer->facts.parameters * sizeof *kernel->parameters;
        kernel->facts = answer->facts;
        kernel->parameters = allocate(bytes + 1);
        memcpy(kernel->parameters, answer->parameters, bytes);
        kernel->asked = true;
    }
    free(answer);
}

/* A kernel that has no host stub: it is its own handle. */
struct kernel *kernel_of_module(struct module *module, const char *name, cudaError_t *error) {
    for (struct kernel *k = kernels; k; k = k->next)
        if (k->module == module && k->host && !strcmp(k->name, name))
            return find_kernel(k, error);
    struct kernel *kernel = allocate(sizeof *kernel);
    kernel->name = strcpy(allocate(strlen(name) + 1), name);
    kernel->module = module;
    kernel->carveout = -1;
    describe(kernel);
    *error = kernel->error;
    if (*error) {
        free((char *)kernel->name);
        free(kernel);
        return NULL;
    }
    kernel->host = kernel;
    kernel->next = kernels;
    kernels = kernel;
    return kernel;
}

/* A kernel is named by its host stub or by its handle. The stub's address is a hash key, in
 * effect: programs have few kernels, and the last one found is tried first. */
struct kernel *find_kernel(const void *function, cudaError_t *error) {
    static struct kernel *recent;
    struct kernel *kernel = recent;
    if (!kernel || (kernel->host != function && kernel != function))
        for (kernel = kernels; kernel; kernel = kernel->next)
            if (kernel->host && (kernel->host == function || kernel == function))
                break;
    if (!kernel || !function) {
        *error = cudaErrorInvalidResourceHandle;
        return NULL;
    }
    recent = kernel;
    if (!kernel->asked)
        describe(kernel);
    *error = kernel->error;
    return kernel->error ? NULL : kernel;
}

/* Programs ask for handles while their static variables are made: no device is needed yet. */
API cudaError_t __cudaGetKernel(cudaKernel_t *handle, const void *function) {
    for (struct kernel *k = kernels; k; k = k->next)
        if (k->host == function) {
            *handle = k;
            return cudaSuccess;
        }
    return fail(cudaErrorInvalidDeviceFunction);
}

API cudaError_t cudaGetKernel(cudaKernel_t *handle, const void *function) {
    return __cudaGetKernel(handle, function);
}
