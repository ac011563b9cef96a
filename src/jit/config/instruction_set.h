// The processor's vector instructions, by which libraries and the loops of this one are judged.
#pragma once

#include <string_view>

namespace coconet::jit {

/// Each has what those before it have. AVX2 is with FMA, AVX-512 with what Skylake's servers have.
enum class InstructionSet { baseline, avx, avx2, avx512 };

/// What the processor and the system let programs use; `baseline` on others than x86-64.
[[nodiscard]] InstructionSet processor_instructions();

/// "AVX-512"; the baseline is "the baseline instructions".
[[nodiscard]] std::string_view to_string(InstructionSet set);

}  // namespace coconet::jit
