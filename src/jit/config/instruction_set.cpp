// Asking the processor.
#include "jit/config/instruction_set.h"

namespace coconet::jit {

InstructionSet processor_instructions() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return InstructionSet::avx512;
  if (avx2) return InstructionSet::avx2;
  if (__builtin_cpu_supports("avx")) return InstructionSet::avx;
#endif
  return InstructionSet::baseline;
}

std::string_view to_string(InstructionSet set) {
  constexpr std::string_view names[] = {"the baseline instructions", "AVX", "AVX2", "AVX-512"};
  return names[static_cast<std::size_t>(set)];
}

}  // namespace coconet::jit
