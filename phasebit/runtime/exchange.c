/* The device half's one piece of C: what NumPy cannot do. A kernel's .sys atomics hold against the
 * program's own threads, which write to the same pages in the same moment. */
#include <stddef.h>
#include <stdint.h>

#define EXCHANGE(name, type)                                                                       \
    static void name(type *memory, const int64_t *places, size_t count, type *before,              \
                     const type *after, uint8_t *lost) {                                           \
        for (size_t i = 0; i < count; i++)                                                         \
            lost[i] = !__atomic_compare_exchange_n(memory + places[i], before + i, after[i], 0,    \
                                                   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);            \
    }
EXCHANGE(exchange2, uint16_t)
EXCHANGE(exchange4, uint32_t)
EXCHANGE(exchange8, uint64_t)

/* Store after[i] in memory[places[i]] where before[i] stands there; lost[i]: it does not. */
void exchange(size_t width, void *memory, const int64_t *places, size_t count, void *before,
              const void *after, uint8_t *lost) {
    switch (width) {
    case 2: exchange2(memory, places, count, before, after, lost); break;
    case 4: exchange4(memory, places, count, before, after, lost); break;
    case 8: exchange8(memory, places, count, before, after, lost); break;
    }
}
