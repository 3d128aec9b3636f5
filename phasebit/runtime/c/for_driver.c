/* What the driver library beside this one needs, and no program: see driver/driver.h. */
#include "runtime.h"

API bool phasebit_uses_runtime(void) { return uses_runtime; }

API cudaError_t phasebit_missing(const char *call) { return missing(call); }

/* The allocation that holds an address: where it begins, its size, its enum space. */
API cudaError_t phasebit_range(uint64_t address, uint64_t *range) {
    ENTER();
    return CALL(OP_RANGE, range, 3 * sizeof *range, address);
}
