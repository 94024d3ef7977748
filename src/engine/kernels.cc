#include "engine/kernels.h"

#include "engine/kernels_variants.h"

namespace spillway {
namespace {

std::vector<const Kernels*> find_runnable() {
  std::vector<const Kernels*> found{&kPortableKernels};
#if defined(__x86_64__)
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                    __builtin_cpu_supports("f16c") != 0;
  if (avx2) {
    found.push_back(&kAvx2Kernels);
  }
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
      __builtin_cpu_supports("avx512vnni") != 0) {
    found.push_back(&kAvx512Kernels);
  }
#endif
  return found;
}

}  // namespace

KernelScratch::KernelScratch(std::size_t max_columns)
    : value_stride(column_blocks(max_columns) * 64),
      group_stride(padded_groups(max_columns)),
      values(kWeightRowsAtOnce * value_stride),
      scales(kWeightRowsAtOnce * group_stride),
      offsets(kWeightRowsAtOnce * group_stride),
      floats(kWeightRowsAtOnce * value_stride),
      halves(2 * group_stride) {}

std::span<const Kernels* const> runnable_kernels() {
  static const std::vector<const Kernels*> kFound = find_runnable();
  return kFound;
}

const Kernels& best_kernels() {
  return *runnable_kernels().back();
}

}  // namespace spillway
