// `coconet compile`: fills the cache with a program's kernels, also for machines that are not this
// one.
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/kernels.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/codegen/codegen.h"
#include "jit/kernels/obtain_binaries.h"

namespace coconet::cli {
namespace {

void print_resources(const std::vector<jit::KernelResources>& kernels) {
  for (const jit::KernelResources& kernel : kernels) {
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
  int compiled = 0;
  int present = 0;
  for (const std::string& arch : archs_of(options)) {
    const std::vector<jit::KernelText> kernels = kernels_of(options, arch);
    const auto compiler = compiler_for(options, arch);
    std::deque<jit::BinaryRequest> requests;
    std::vector<const jit::BinaryRequest*> wanted;
    for (const jit::KernelText& text : kernels)
      wanted.push_back(&requests.emplace_back(*compiler, text, config()));
    const std::vector<jit::ObtainedBinary> obtained = jit::obtain_binaries(wanted);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      std::printf("%-24s %-8s ", kernels[i].name.c_str(), arch.c_str());
      if (obtained[i].failure) {
        std::printf("failed\n");
        std::fflush(stdout);
        std::rethrow_exception(obtained[i].failure);
      }
      wanted[i]->dump(obtained[i].binary);
      if (obtained[i].was_compiled()) {
        const std::chrono::duration<double, std::milli> took = obtained[i].compile_time;
        std::printf("compiled in %.0f ms, %zu bytes", took.count(),
                    obtained[i].binary.payload.size());
        ++compiled;
      } else {
        std::printf("in the cache");
        ++present;
      }
      print_resources(compiler->resources(obtained[i].binary.log));
      std::printf("\n");
      if (!wanted[i]->is_stored()) {
        throw CompileError("the cache in '" + config().cache_dir.string() +
                           "' does not keep what is written to it; is the disk full?");
      }
    }
  }
  std::printf("%s: %d compiled, %d in the cache already\n", config().cache_dir.c_str(), compiled,
              present);
  return exit_ok;
}

}  // namespace coconet::cli
