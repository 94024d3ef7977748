#pragma once
// The kernels of each kind of processor; for kernels.cc only, which knows what this machine runs.

#include "engine/kernels.h"

namespace spillway {

extern const Kernels kPortableKernels;
#if defined(__x86_64__)
extern const Kernels kAvx2Kernels;    // needs AVX2, FMA, F16C
extern const Kernels kAvx512Kernels;  // needs those and AVX-512 F, BW, DQ, VL, VNNI
#endif

}  // namespace spillway
