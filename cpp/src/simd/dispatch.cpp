#include <atomic>
#include <stdexcept>

#include "variants.hpp"

#if DPOCO_X86_VARIANTS
#include <cpuid.h>
#endif

namespace dpoco::simd {
namespace {

#if DPOCO_X86_VARIANTS
// All features that kernels_avx2.cpp and kernels_avx512.cpp are compiled with, as bits of leaf 7,
// EBX.
constexpr unsigned kAvx2Features = bit_AVX2 | bit_BMI2;
constexpr unsigned kAvx512Features =
    kAvx2Features | bit_AVX512F | bit_AVX512DQ | bit_AVX512BW | bit_AVX512VL;

// The features of the processor, if the operating system saves its registers. The code asks the
// processor, because __builtin_cpu_supports needs a table that not every tool chain links into a
// shared library.
unsigned features() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & bit_OSXSAVE) == 0) return 0;
  unsigned saved = 0, high = 0;
  __asm__ volatile("xgetbv" : "=a"(saved), "=d"(high) : "c"(0));
  constexpr unsigned kYmm = 0x06, kZmm = 0xe6;  // bits of XCR0
  if ((saved & kYmm) != kYmm) return 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return 0;
  return (saved & kZmm) == kZmm ? ebx : ebx & kAvx2Features;
}

bool has(unsigned wanted) { return (features() & wanted) == wanted; }
#endif

bool runs_here(const std::string& name) {
#if DPOCO_X86_VARIANTS
  if (name == "avx2") return has(kAvx2Features);
  if (name == "avx512") return has(kAvx512Features);
#endif
  return name == "baseline";
}

const Kernels* find(const std::string& name) {
  if (name == "auto") {
    for (const char* best : {"avx512", "avx2"}) {
      if (runs_here(best)) return find(best);
    }
    return &kBaseline;
  }
  if (!runs_here(name)) throw std::invalid_argument("instruction set not available: " + name);
#if DPOCO_X86_VARIANTS
  if (name == "avx512") return &kAvx512;
  if (name == "avx2") return &kAvx2;
#endif
  return &kBaseline;
}

std::atomic<const Kernels*> chosen{nullptr};

}  // namespace

const Kernels& kernels() {
  const Kernels* current = chosen.load(std::memory_order_relaxed);
  if (current == nullptr) {
    current = find("auto");
    chosen.store(current, std::memory_order_relaxed);
  }
  return *current;
}

std::string select(const std::string& name) {
  const Kernels* wanted = find(name);
  chosen.store(wanted, std::memory_order_relaxed);
  return wanted->name;
}

}  // namespace dpoco::simd
