// The tuning file of a machine: read by all ranks, measured, and replaced.
#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/read_file.h"
#include "jit/comm/access.h"
#include "jit/config/build_info.h"
#include "jit/config/files.h"
#include "jit/config/log.h"
#include "jit/tune/calibrate.h"
#include "jit/tune/measure_ways.h"
#include "jit/tune/tuning_file.h"

namespace coconet::jit {
namespace {

/// Empty where there is no file.
std::string read_text(const std::filesystem::path& path) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return {};
  const auto text = ir::read_file(path).bytes;
  if (!text || text->empty())
    throw ConfigError("cannot read the tuning file '" + path.string() + "'");
  return *text;
}

}  // namespace

TuningFile read_tuning(Comm& comm, const Platform& platform, const Config& config) {
  std::string text;
  together(comm, [&] {
    if (comm.rank() == 0) text = read_text(config.tune_file);
  });
  text = comm.broadcast(text, 0);
  TuningFile file;
  const std::string device = device_of(platform);
  bool is_ours = false;
  together(comm, [&] {
    if (text.empty()) return;
    try {
      // Another version's may have other keys.
      file = parse_tuning_origin(text);
      is_ours = file.library == build_info::version && file.device == device;
      if (is_ours) file = parse_tuning(text);
    } catch (const ConfigError& error) {
      throw ConfigError(config.tune_file.string() + ": " + error.what());
    }
  });
  static std::atomic<bool> was_told = false;
  if (!text.empty() && !is_ours && comm.rank() == 0 && !was_told.exchange(true)) {
    log_warn(fmt::format(
        "the tuning file '{}' is ignored: it is of version {} on {}, and this is {} on {}",
        config.tune_file.string(), file.library, file.device, build_info::version, device));
  }
  if (!is_ours) file = {};
  file.library = build_info::version;
  file.device = device;
  return file;
}

void measure_machine(const World& world, TuningFile& file) {
  Comm& comm = comm_of(world);
  const Platform& platform = platform_of(comm);
  if (platform.traits().immediate && comm.size() > 1 && comm.nodes().count() == 1)
    file.ways[comm.size()] = measure_ways(comm, platform);
  file.machines[comm.size()] = calibrate(world);
}

std::optional<sched::Cluster> known_machine(int ranks) {
  const World self = World::self();
  const TuningFile file =
      read_tuning(comm_of(self), platform_of(comm_of(self)), comm_of(self).config());
  const auto machine = file.machines.find(ranks);
  if (machine == file.machines.end()) return {};
  return machine->second;
}

void use_tuned_ways(const World& world) {
  Comm& comm = comm_of(world);
  if (std::exchange(comm.is_tuned(), true) || comm.config().tune == "off" || comm.size() == 1)
    return;
  const Platform* platform = nullptr;
  together(comm, [&] { platform = &platform_of(comm); });
  if (!platform->traits().immediate) return;
  const TuningFile file = read_tuning(comm, *platform, comm.config());
  const auto ways = file.ways.find(comm.size());
  if (ways != file.ways.end()) comm.set_ways(ways->second);
}

void write_tuning(Comm& comm, const TuningFile& file, const Config& config) {
  together(comm, [&] {
    if (comm.rank() != 0 || config.tune_file.empty()) return;
    // Like the kernel cache, which it may be: only a folder of the owner alone is trusted.
    std::error_code ignored;
    const std::filesystem::path folder = config.tune_file.parent_path();
    if (std::filesystem::create_directories(folder, ignored))
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
    write_atomically(config.tune_file, to_json(file), "COCONET_TUNE_FILE");
  });
}

}  // namespace coconet::jit
