// The machine code of simple kernels on the host, for processors of several widths, none of which
// this one needs to be: vectors stay in registers.
#include <catch2/catch.hpp>

#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "child_process.h"
#include "coconet/coconet.h"
#include "ir/access.h"
#include "jit/codegen/codegen.h"
#include "jit/platform/host/compiler.h"
#include "sched/plan.h"

using namespace coconet;
using namespace coconet::test;

#if defined(__x86_64__)

namespace {

struct Processor {
  const char* option;
  const char *multiply, *divide, *root;  ///< of its widest vectors
};
constexpr Processor processors[] = {
    {"-march=x86-64", R"(\bmulps\b.*%xmm)", R"(\bdivps\b.*%xmm)", R"(\bsqrtps\b.*%xmm)"},
    {"-march=haswell", R"(\bvmulps\b.*%ymm)", R"(\bvdivps\b.*%ymm)", R"(\bvsqrtps\b.*%ymm)"},
    {"-march=skylake-avx512", R"(\bvmulps\b.*%zmm)", R"(\bvdivps\b.*%zmm)",
     R"(\bvsqrtps\b.*%zmm)"}};

/// y = x t, of f32.
Program product() {
  Program program("scale", Mesh({{"world", 1}}));
  const Value x = program.input("x", f32, {program.dim("n")}, replicated);
  program.output("y", x * program.scalar("t"));
  return program;
}
/// Kernels of several functions each, all of them together.
std::vector<Program> programs_of_functions(DType dtype) {
  std::vector<Program> programs;
  const auto add = [&](const char* name, Value (*y)(Value)) {
    Program& program = programs.emplace_back(name, Mesh({{"world", 1}}));
    program.output("y", y(program.input("x", dtype, {program.dim("n")}, replicated)));
  };
  add("exp", [](Value x) { return exp(x); });
  add("exps", [](Value x) { return expm1(x) + tanh(x) + erf(x); });
  add("logs", [](Value x) { return log(x) + log1p(x); });
  add("waves", [](Value x) { return sin(x) + cos(x); });
  add("powers", [](Value x) { return pow(x, x); });
  return programs;
}

/// The instructions of the program's kernel; empty where there is no such compiler, or no objdump.
std::vector<std::string> instructions_of(const Program& program, const std::string& cxx,
                                         const std::string& option) {
  if (run_shell("command -v objdump && command -v " + cxx).code != 0) return {};
  const jit::KernelText text = jit::generate(sched::lower(*ir::graph_of(program))).front();
  const jit::HostCompiler compiler(cxx, option, config().compile_timeout);
  const jit::CompileResult compiled =
      compiler.compile(jit::complete_source(text, compiler.target()));
  INFO(compiled.log);
  REQUIRE(compiled.ok);
  const ScratchDirectory directory;
  const std::string file = (directory.path() / "kernel.so").string();
  std::ofstream(file, std::ios::binary) << compiled.binary;
  const ChildOutput dump = run_shell("objdump -d --no-show-raw-insn " + file);
  REQUIRE(dump.code == 0);
  std::istringstream all(dump.text);
  std::vector<std::string> lines;
  bool in_kernel = false;
  for (std::string line; std::getline(all, line);) {
    if (line.ends_with(">:")) in_kernel = line.find("<" + text.entry + ">") != std::string::npos;
    if (in_kernel) lines.push_back(line);
  }
  return lines;
}

/// Those of `lines` that match.
std::vector<std::string> matching(const std::vector<std::string>& lines, const char* pattern) {
  const std::regex expression(pattern);
  std::vector<std::string> found;
  for (const std::string& line : lines) {
    if (std::regex_search(line, expression)) found.push_back(line);
  }
  return found;
}

}  // namespace

TEST_CASE("vectors of a kernel are the processor's, and no lane takes a way round") {
  for (const char* const cxx : {"g++", "clang++"}) {
    for (const Processor& processor : processors) {
      INFO(cxx << " " << processor.option);
      const std::vector<std::string> lines = instructions_of(product(), cxx, processor.option);
      if (lines.empty()) continue;
      CHECK_FALSE(matching(lines, processor.multiply).empty());
      // Through the stack, or from lanes of other vectors.
      const std::vector<std::string> around = matching(
          lines, R"(%[xyz]mm.*\(%[re]sp|\(%[re]sp.*%[xyz]mm|gather|scatter|vpermt2|pinsr)");
      INFO((around.empty() ? std::string() : around.front()));
      CHECK(around.empty());
    }
  }
}

TEST_CASE("divisions and roots are the processor's vectors") {
  Program program("step", Mesh({{"world", 1}}));
  const Dim n = program.dim("n");
  const Value m = program.input("m", f32, {n}, replicated);
  const Value v = program.input("v", f32, {n}, replicated);
  program.output("y", m / (sqrt(v) + 1e-8));
  for (const char* const cxx : {"g++", "clang++"}) {
    for (const Processor& processor : processors) {
      INFO(cxx << " " << processor.option);
      const std::vector<std::string> lines = instructions_of(program, cxx, processor.option);
      if (lines.empty()) continue;
      const std::size_t divisions = matching(lines, processor.divide).size();
      CHECK(divisions > 0);
      CHECK_FALSE(matching(lines, processor.root).empty());
      // What is left over of a vector is computed by itself, in up to seven copies.
      CHECK(matching(lines, R"(\bv?divss\b)").size() <= 7 * divisions);
    }
  }
}

TEST_CASE("functions are vectors where the processor has fused multiply and add") {
  constexpr const char* libraries = R"(call.*<(exp(m1)?|log(1p)?|tanh|erf|pow)f?@plt>)";
  constexpr const char* library_waves = R"(call.*<(sin|cos|sincos)f?@plt>)";
  for (const char* const cxx : {"g++", "clang++"}) {
    for (const DType dtype : {f32, f64}) {
      for (const Program& program : programs_of_functions(dtype)) {
        INFO(cxx << " " << program.name() << " " << to_string(dtype));
        const bool waves = program.name() == "waves";
        if (dtype == f32) {
          const std::vector<std::string> lines = instructions_of(program, cxx, "-march=x86-64");
          if (lines.empty()) continue;
          CHECK_FALSE(matching(lines, waves ? library_waves : libraries).empty());
        }
        for (const auto& [option, fused] :
             {std::pair{"-march=haswell", R"(\bvfn?m(add|sub).*%ymm)"},
              std::pair{"-march=skylake-avx512", R"(\bvfn?m(add|sub).*%zmm)"}}) {
          INFO(option);
          const std::vector<std::string> lines = instructions_of(program, cxx, option);
          if (lines.empty()) continue;
          CHECK(matching(lines, libraries).empty());
          // What is left over is computed by itself, in up to three copies, and sines of large
          // numbers are computed again. In lanes that a compiler took apart there are more than
          // four to one.
          const std::size_t alone = matching(lines, R"(\bvfn?m(add|sub)\w*s[sd]\b)").size();
          CHECK(alone <= matching(lines, fused).size() * 3);
        }
      }
    }
  }
}

#endif
