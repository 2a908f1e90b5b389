#include <atomic>
#include <stdexcept>

#include "variants.hpp"

namespace dpoco::simd {
namespace {

bool runs_here(const std::string& name) {
#if DPOCO_X86_VARIANTS
  if (name == "avx2") return __builtin_cpu_supports("avx2");
  if (name == "avx512") {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw");
  }
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
