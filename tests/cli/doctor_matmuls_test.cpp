// What `coconet doctor` says of the libraries of matmuls on the host, and what a run says without
// them.
#include <catch2/catch.hpp>
#include <initializer_list>
#include <string>

#include "cli/command.h"
#include "jit/platform/host/onednn.h"
#include "jit/platform/host/openblas.h"

using Catch::Matchers::Contains;
using namespace coconet;
using coconet::test::coconet_command;

namespace {

const jit::InstructionSet processor = jit::processor_instructions();
const std::string has = "; the processor has " + std::string(to_string(processor)) + "\n";

/// A directory for LD_LIBRARY_PATH whose libraries, `names`, are files that do not load.
class Broken {
 public:
  explicit Broken(std::initializer_list<const char*> names) {
    for (const char* const name : names) test::write_file(scratch_.path() / name, "no library");
  }
  [[nodiscard]] std::string variable() const {
    return "LD_LIBRARY_PATH='" + scratch_.path().string() + "'";
  }

 private:
  test::ScratchDirectory scratch_;
};

std::string doctor_of_matmuls(const std::string& environment) {
  return coconet_command("doctor", environment).out;
}

}  // namespace

TEST_CASE("doctor says which library multiplies what, by which instructions") {
  const std::string set(to_string(processor));
  const std::string said = doctor_of_matmuls("A=1");
  if (jit::onednn::facts().problem.empty()) {
    CHECK_THAT(said, Contains("[ok] oneDNN          " + jit::onednn::facts().version + ", ") &&
                         Contains("/libdnnl.so.2, multiplies f32"));
    CHECK_THAT(said, Contains(", by " + set + "\n"));
    CHECK_THAT(said, Contains("multiplies f64, by " + set + " ("));
  } else {
    CHECK_THAT(said, Contains("[--] oneDNN          ") &&
                         Contains("without it: OpenBLAS multiplies matrices of all dtypes, 16-bit "
                                  "floats as f32\n") &&
                         Contains("to get it: install libdnnl2; the build needs libdnnl-dev of "
                                  "version 2\n"));
    CHECK_THAT(said, Contains("multiplies f64 and f32, f16 and bf16 as f32, by " + set + " ("));
  }
}

TEST_CASE("doctor warns of kernels below the processor's, and says what would mend them") {
  if (processor == jit::InstructionSet::baseline) return;
  CHECK_THAT(doctor_of_matmuls("OPENBLAS_CORETYPE=Prescott"),
             Contains("[--] OpenBLAS        ") &&
                 Contains("by the baseline instructions (Prescott)" + has) &&
                 Contains("that costs: its matmuls take a multiple of the time\n") &&
                 Contains("to mend it: unset OPENBLAS_CORETYPE, which is 'Prescott'\n"));
  if (!jit::onednn::facts().problem.empty()) return;
  CHECK_THAT(
      doctor_of_matmuls("ONEDNN_MAX_CPU_ISA=SSE41"),
      Contains("[--] oneDNN          ") &&
          Contains("multiplies f32, bf16 and f16 as f32, by the baseline instructions" + has) &&
          Contains("to mend it: unset ONEDNN_MAX_CPU_ISA, which is 'SSE41'\n"));
}

TEST_CASE("an OpenBLAS that does not know the processor gets a core type that fits") {
  const std::string stub = "LD_LIBRARY_PATH='" COCONET_STUBS_DIR "/openblas' ";
  const std::string core = jit::openblas::core_type_for(processor);
  const std::string fits = core.empty() ? "Prescott" : core;
  CHECK_THAT(doctor_of_matmuls(stub),
             Contains("[ok] OpenBLAS        OpenBLAS stub, " COCONET_STUBS_DIR
                      "/openblas/libopenblas.so.0, multiplies f64") &&
                 Contains(", by " + std::string(to_string(processor)) + " (" + fits + ")\n"));
  // What the user says stays.
  if (core.empty()) return;
  CHECK_THAT(doctor_of_matmuls(stub + "OPENBLAS_CORETYPE=Nehalem"),
             Contains("by the baseline instructions (Nehalem)" + has));
}

TEST_CASE("without a library of matmuls doctor and a run say what is missing") {
  const std::string matmul =
      "run attention_block --world local:2 --iters 1 --set B=1 --set S=3 --set H=4 --dtype ";
  const Broken both({"libdnnl.so.2", "libopenblas.so.0"});
  CHECK_THAT(doctor_of_matmuls(both.variable()),
             Contains("[--] oneDNN          ") &&
                 Contains("without it: matrices of f32 and 16-bit floats are not multiplied on the "
                          "host\n") &&
                 Contains("[--] OpenBLAS        ") &&
                 Contains("without it: matrices are not multiplied on the host\n") &&
                 Contains("to get it: install libopenblas0\n"));
  const auto said = coconet_command(matmul + "f32", both.variable());
  CHECK(said.code != 0);
  CHECK_THAT(said.err, Contains("needs oneDNN or OpenBLAS, and neither loads: ") &&
                           Contains("; install one (Debian: libdnnl2 or libopenblas0)"));
  if (!jit::onednn::facts().problem.empty()) return;
  const Broken openblas({"libopenblas.so.0"});
  CHECK_THAT(doctor_of_matmuls(openblas.variable()),
             Contains("without it: matrices of f64 are not multiplied on the host\n"));
  CHECK(coconet_command(matmul + "f32 --check", openblas.variable()).code == 0);
  CHECK_THAT(coconet_command(matmul + "f64", openblas.variable()).err,
             Contains(" of f64 needs OpenBLAS, which does not load: ") &&
                 Contains("; install it (Debian: libopenblas0)"));
}
