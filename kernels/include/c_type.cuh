// The type of C: f32, as tensor memory has sums, or with -DC_BF16 bf16, half as many bytes.
#pragma once
#include <cuda_bf16.h>

#ifdef C_BF16
using Out = __nv_bfloat16;
#else
using Out = float;
#endif
