// The libraries of matmuls on the host, and whether they use what the processor has.
#include <fmt/format.h>

#include <cstdlib>
#include <initializer_list>

#include "cli/findings.h"
#include "jit/platform/host/onednn.h"
#include "jit/platform/host/openblas.h"

namespace coconet::cli {
namespace {

/// Says what there is of a library that works. One of `variables`, when it is set, is why its
/// kernels are below the processor's.
void judge(const char* name, const jit::BlasFacts& facts, const std::string& fact,
           std::initializer_list<const char*> variables, const std::string& better,
           Findings& findings) {
  const jit::InstructionSet processor = jit::processor_instructions();
  if (facts.instructions >= processor) {
    findings.here(name, fact);
    return;
  }
  std::string cure = better;
  for (const char* const variable : variables) {
    if (const char* const value = std::getenv(variable))
      cure = fmt::format("unset {}, which is '{}'", variable, value);
  }
  findings.below(name, fmt::format("{}; the processor has {}", fact, to_string(processor)),
                 "its matmuls take a multiple of the time", cure);
}

/// "f32 and bf16, f16 as f32"
std::string dtypes_of_onednn() {
  std::string own = "f32";
  std::string widened;
  for (const DType dtype : {DType::bf16, DType::f16}) {
    std::string& list = jit::onednn::multiplies(dtype) ? own : widened;
    list += fmt::format("{}{}", list.empty() ? "" : " and ", to_string(dtype));
  }
  return widened.empty() ? own : own + ", " + widened + " as f32";
}

void examine_onednn(bool has_openblas, Findings& findings) {
  const jit::BlasFacts& onednn = jit::onednn::facts();
  if (!onednn.problem.empty()) {
    findings.missing("oneDNN", onednn.problem,
                     has_openblas
                         ? "OpenBLAS multiplies matrices of all dtypes, 16-bit floats as f32"
                         : "matrices of f32 and 16-bit floats are not multiplied on the host",
                     "install libdnnl2; the build needs libdnnl-dev of version 2");
    return;
  }
  judge("oneDNN", onednn,
        fmt::format("{}, {}, multiplies {}, by {}", onednn.version, onednn.file, dtypes_of_onednn(),
                    to_string(onednn.instructions)),
        {"DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA"}, "install a newer one", findings);
}

void examine_openblas(bool has_onednn, Findings& findings) {
  const jit::BlasFacts& openblas = jit::openblas::facts();
  if (!openblas.problem.empty()) {
    findings.missing("OpenBLAS", openblas.problem,
                     has_onednn ? "matrices of f64 are not multiplied on the host"
                                : "matrices are not multiplied on the host",
                     "install libopenblas0");
    return;
  }
  judge("OpenBLAS", openblas,
        fmt::format("{}, {}, multiplies {}, by {} ({})", openblas.version, openblas.file,
                    has_onednn ? "f64" : "f64 and f32, f16 and bf16 as f32",
                    to_string(openblas.instructions), openblas.kernels),
        {"OPENBLAS_CORETYPE"}, "install a newer one that has DYNAMIC_ARCH", findings);
}

}  // namespace

void examine_matmuls(Findings& findings) {
  const bool has_onednn = jit::onednn::facts().problem.empty();
  examine_onednn(jit::openblas::facts().problem.empty(), findings);
  examine_openblas(has_onednn, findings);
}

}  // namespace coconet::cli
