#pragma once

#include "dpoco/simd/kernels.hpp"

namespace dpoco::simd {

extern const Kernels kBaseline;
#if defined(__x86_64__) && defined(__GNUC__)
#define DPOCO_X86_VARIANTS 1
extern const Kernels kAvx2;
extern const Kernels kAvx512;
#endif

}  // namespace dpoco::simd
