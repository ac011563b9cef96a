// `coconet compile`: fills the cache with a program's kernels, also for machines that are not this
// one.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cli/commands.h"
#include "cli/kernels.h"
#include "coconet/config.h"
#include "coconet/error.h"
#include "jit/cache/process_cache.h"
#include "jit/codegen/codegen.h"
#include "jit/kernels/binary_request.h"
#include "jit/platform/nvrtc.h"

namespace coconet::cli {
namespace {

void print_resources(const std::string& log) {
  for (const jit::KernelResources& kernel : jit::nvrtc::resources(log)) {
    std::printf("  %d registers, %d bytes spilled, %d bytes of shared memory", kernel.registers,
                kernel.spill_store_bytes + kernel.spill_load_bytes, kernel.shared_bytes);
  }
}

/// One kernel, and what came of it.
struct Row {
  Row(const jit::Compiler& compiler, const jit::KernelText& text) : request(compiler, text) {}
  jit::BinaryRequest request;
  jit::BinaryRequest::Obtained obtained;
  std::exception_ptr failure;
};

/// As many at once as COCONET_JIT_JOBS allows.
void obtain_all(std::deque<Row>& rows) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < rows.size(); i = next++) {
      try {
        rows[i].obtained = rows[i].request.obtain();
        rows[i].request.dump(rows[i].obtained.binary);
      } catch (...) {
        rows[i].failure = std::current_exception();
      }
    }
  };
  const auto jobs = static_cast<std::size_t>(jit::process_cache().slots().in_process());
  std::vector<std::jthread> helpers;
  while (helpers.size() + 1 < std::min(jobs, rows.size())) helpers.emplace_back(work);
  work();
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
    std::deque<Row> rows;
    for (const jit::KernelText& text : kernels) rows.emplace_back(*compiler, text);
    obtain_all(rows);
    for (const Row& row : rows) {
      std::printf("%-24s %-8s ", row.request.text().name.c_str(), arch.c_str());
      if (row.failure) {
        std::printf("failed\n");
        std::fflush(stdout);
        std::rethrow_exception(row.failure);
      }
      if (row.obtained.compiled) {
        const std::chrono::duration<double, std::milli> took = row.obtained.compile_time;
        std::printf("compiled in %.0f ms, %zu bytes", took.count(),
                    row.obtained.binary.payload.size());
        ++compiled;
      } else {
        std::printf("in the cache");
        ++present;
      }
      if (arch != "host") print_resources(row.obtained.binary.log);
      std::printf("\n");
      if (!row.request.is_stored()) {
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
