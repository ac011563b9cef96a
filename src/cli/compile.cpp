// `coconet compile`: fills the cache with a program's kernels, also for machines that are not this one.
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/subject.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "coconet/program.h"
#include "jit/binary_request.h"
#include "jit/codegen/codegen.h"
#include "jit/compile/host_compiler.h"
#include "jit/compile/nvrtc.h"
#include "sched/knobs.h"
#include "sched/plan.h"

namespace coconet::cli {
namespace {

std::unique_ptr<jit::Compiler> compiler_for(const std::string& arch) {
  if (arch == "host") {
    return std::make_unique<jit::HostCompiler>(config().cxx, config().cxx_flags,
                                               config().compile_timeout, config().host_threads);
  }
  return std::make_unique<jit::NvrtcCompiler>(arch, config().line_info);
}

void print_resources(const jit::CompileResult& result) {
  for (const jit::KernelResources& kernel : result.kernels) {
    std::printf("  %d registers, %d bytes spilled, %d bytes of shared memory", kernel.registers,
                kernel.spill_store_bytes + kernel.spill_load_bytes, kernel.shared_bytes);
  }
}

}  // namespace

int compile(const CompileOptions& options) {
  if (config().cache != "rw" || config().cache_dir.empty()) {
    throw ConfigError(config().cache_dir.empty()
                          ? "there is no cache directory to fill; set COCONET_CACHE_DIR to one"
                          : "COCONET_CACHE is '" + config().cache +
                                "', so the cache cannot be filled; unset it");
  }
  const Found found(options.subject);
  const Program program = found.program(found.ranks_to_plan_for(options.ranks));
  const Program scheduled =
      sched::with_knobs(found.schedule().apply(program).back(), config().knobs);
  const std::vector<jit::KernelText> kernels = jit::generate(sched::lower(*scheduled.graph()));
  std::vector<std::string> archs = options.archs;
  if (archs.empty()) archs.push_back(config().arch.empty() ? "host" : config().arch);

  int compiled = 0;
  int present = 0;
  for (const std::string& arch : archs) {
    const auto compiler = compiler_for(arch);
    for (const jit::KernelText& text : kernels) {
      const jit::BinaryRequest request(*compiler, text);
      std::printf("%-24s %-8s ", text.name.c_str(), arch.c_str());
      if (request.find_on_disk()) {
        std::printf("in the cache\n");
        ++present;
        continue;
      }
      const auto start = std::chrono::steady_clock::now();
      const jit::CompileResult result = request.compile();
      const std::chrono::duration<double, std::milli> took =
          std::chrono::steady_clock::now() - start;
      request.publish(result.binary);
      if (!request.find_on_disk()) {
        throw CompileError("the cache in '" + config().cache_dir.string() +
                           "' does not keep what is written to it; is the disk full?");
      }
      std::printf("compiled in %.0f ms, %zu bytes", took.count(), result.binary.size());
      print_resources(result);
      std::printf("\n");
      ++compiled;
    }
  }
  std::printf("%s: %d compiled, %d in the cache already\n", config().cache_dir.c_str(), compiled,
              present);
  return exit_ok;
}

}  // namespace coconet::cli
