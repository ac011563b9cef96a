// `coconet calibrate`: measures the machine at hand, for predictions.
#include <cstdio>
#include <string>

#include "cli/commands.h"
#include "cli/interrupts.h"
#include "cli/launch.h"
#include "coconet/config.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/files.h"
#include "jit/tune/tuning_file.h"

namespace coconet::cli {
namespace {

void print(const sched::Cluster& cluster) {
  std::printf("%s: %s\n", cluster.name.c_str(), cluster.description.c_str());
  std::printf("a kernel %.3g us, a meeting of its ranks %.3g us\n", cluster.launch_us,
              cluster.barrier_us);
  std::printf("element by element %.4g G operations/s", cluster.pointwise_gop_per_s);
  for (const auto& [dtype, rate] : cluster.matmul_gop_per_s)
    std::printf(", matmul of %s %.4g", std::string(to_string(dtype)).c_str(), rate);
  std::printf("\nsteps %s at once\n", cluster.overlaps ? "can run" : "do not run");
  std::printf("%14s %10s\n", "bytes", "GB/s");
  for (const sched::Cluster::Rate& rate : cluster.memory)
    std::printf("%14.0f %10.4g\n", rate.bytes, rate.gb_per_s);
  if (!cluster.lines.empty()) {
    std::printf("%14s %10s\n", "from others'", "caches, us");
    for (const sched::Cluster::Time& time : cluster.lines)
      std::printf("%14.0f %10.4g\n", time.bytes, time.us);
  }
  if (cluster.library.empty()) return;
  std::printf("%14s", "bytes, us of");
  for (const auto& [op, times] : cluster.library)
    std::printf(" %14s", std::string(to_string(op)).c_str());
  for (std::size_t i = 0; i < cluster.library.begin()->second.size(); ++i) {
    std::printf("\n%14.0f", cluster.library.begin()->second[i].bytes);
    for (const auto& [op, times] : cluster.library) std::printf(" %14.4g", times[i].us);
  }
  std::printf("\n");
}

int calibrate_on(const World& world, const std::string& out) {
  jit::Comm& comm = jit::comm_of(world);
  jit::TuningFile file = jit::read_tuning(comm, jit::platform_of(comm), comm.config());
  jit::require_replaceable(file, comm.config());
  listen_for_interrupts();
  const auto keep = [&](jit::TuningFile& now) { jit::write_tuning(comm, now, comm.config()); };
  const bool was_there = file.machines.contains(world.size());
  const bool is_whole = jit::measure_machine(world, file, {keep, was_interrupted});
  if (!is_whole) {
    if (world.rank() == 0) {
      complain(config().tune_file.empty() ? "interrupted"
               : was_there                ? "interrupted; what was measured before stays"
                           : "interrupted; what is measured is kept, and the next time goes on "
                             "from there");
    }
    return exit_failure;
  }
  const sched::Cluster& cluster = file.machines[world.size()];
  jit::together(comm, [&] {
    if (world.rank() != 0) return;
    print(cluster);
    if (!out.empty()) jit::write_atomically(out, sched::to_json(cluster), "--out");
    if (!config().tune_file.empty())
      std::printf("kept in %s\n", config().tune_file.string().c_str());
  });
  return exit_ok;
}

}  // namespace

int calibrate(const std::string& out) {
  const World world = launch().by_mpi ? World::mpi() : World::self();
  return guarded(world, [&] { return calibrate_on(world, out); });
}

}  // namespace coconet::cli
