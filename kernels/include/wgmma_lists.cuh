// Lists for assembler statements of wgmma, which names each register of the sums: WGMMA_NAMES_k are
// the names of the first 8k operands, %0 on, and WGMMA_SUMS_k are these operands, d[0] on.
#pragma once

#define WGMMA_EIGHT(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), \
                       "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define WGMMA_NAMES_1 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_NAMES_2 WGMMA_NAMES_1 ", " "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_NAMES_3 WGMMA_NAMES_2 ", " "%16, %17, %18, %19, %20, %21, %22, %23"
#define WGMMA_NAMES_4 WGMMA_NAMES_3 ", " "%24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_NAMES_5 WGMMA_NAMES_4 ", " "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_NAMES_6 WGMMA_NAMES_5 ", " "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_NAMES_7 WGMMA_NAMES_6 ", " "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_NAMES_8 WGMMA_NAMES_7 ", " "%56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_NAMES_9 WGMMA_NAMES_8 ", " "%64, %65, %66, %67, %68, %69, %70, %71"
#define WGMMA_NAMES_10 WGMMA_NAMES_9 ", " "%72, %73, %74, %75, %76, %77, %78, %79"
#define WGMMA_NAMES_11 WGMMA_NAMES_10 ", " "%80, %81, %82, %83, %84, %85, %86, %87"
#define WGMMA_NAMES_12 WGMMA_NAMES_11 ", " "%88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_NAMES_13 WGMMA_NAMES_12 ", " "%96, %97, %98, %99, %100, %101, %102, %103"
#define WGMMA_NAMES_14 WGMMA_NAMES_13 ", " "%104, %105, %106, %107, %108, %109, %110, %111"
#define WGMMA_NAMES_15 WGMMA_NAMES_14 ", " "%112, %113, %114, %115, %116, %117, %118, %119"
#define WGMMA_NAMES_16 WGMMA_NAMES_15 ", " "%120, %121, %122, %123, %124, %125, %126, %127"
#define WGMMA_SUMS_1 WGMMA_EIGHT(0)
#define WGMMA_SUMS_2 WGMMA_SUMS_1, WGMMA_EIGHT(8)
#define WGMMA_SUMS_3 WGMMA_SUMS_2, WGMMA_EIGHT(16)
#define WGMMA_SUMS_4 WGMMA_SUMS_3, WGMMA_EIGHT(24)
#define WGMMA_SUMS_5 WGMMA_SUMS_4, WGMMA_EIGHT(32)
#define WGMMA_SUMS_6 WGMMA_SUMS_5, WGMMA_EIGHT(40)
#define WGMMA_SUMS_7 WGMMA_SUMS_6, WGMMA_EIGHT(48)
#define WGMMA_SUMS_8 WGMMA_SUMS_7, WGMMA_EIGHT(56)
#define WGMMA_SUMS_9 WGMMA_SUMS_8, WGMMA_EIGHT(64)
#define WGMMA_SUMS_10 WGMMA_SUMS_9, WGMMA_EIGHT(72)
#define WGMMA_SUMS_11 WGMMA_SUMS_10, WGMMA_EIGHT(80)
#define WGMMA_SUMS_12 WGMMA_SUMS_11, WGMMA_EIGHT(88)
#define WGMMA_SUMS_13 WGMMA_SUMS_12, WGMMA_EIGHT(96)
#define WGMMA_SUMS_14 WGMMA_SUMS_13, WGMMA_EIGHT(104)
#define WGMMA_SUMS_15 WGMMA_SUMS_14, WGMMA_EIGHT(112)
#define WGMMA_SUMS_16 WGMMA_SUMS_15, WGMMA_EIGHT(120)
