// The tuning file of a machine: read by all ranks, measured, and replaced.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <utility>

#include "coconet/config.h"
#include "coconet/error.h"
#include "ir/read_file.h"
#include "jit/comm/access.h"
#include "jit/config/build_info.h"
#include "jit/config/files.h"
#include "jit/config/log.h"
#include "jit/tune/calibrate.h"
#include "jit/tune/timing.h"
#include "jit/tune/tuning_file.h"

namespace coconet::jit {
namespace {

using OnDisk = TuningFile::OnDisk;

/// Collective: the file's bytes; nothing where there are none, and `file` says why.
std::optional<std::string> read_text(Comm& comm, const std::filesystem::path& path,
                                     TuningFile& file) {
  // Rank 0's answer: one letter for what is there, and the bytes or what is wrong.
  std::string answer;
  together(comm, [&] {
    if (comm.rank() != 0) return;
    const ir::FileText read = path.empty() ? ir::FileText{.is_missing = true} : ir::read_file(path);
    const char* const kind = read.bytes ? "+" : read.is_missing ? "-" : read.is_no_file ? "?" : "!";
    answer = kind + read.bytes.value_or(read.problem);
  });
  answer = comm.broadcast(answer, 0);
  const char kind = answer.front();
  answer.erase(0, 1);
  if (kind == '+') return answer;
  if (kind != '-') file.problem = "it cannot be read: " + answer;
  file.on_disk = kind == '!' ? OnDisk::unreadable : OnDisk::nothing;
  return std::nullopt;
}

/// What `text` says where it is of this library and `device`; else why it is ignored.
TuningFile parse_ours(std::string_view text, const std::string& device) {
  TuningFile file;
  try {
    // Another version's may have other keys.
    file = parse_tuning_origin(text);
    if (file.library == build_info::version && file.device == device) {
      file = parse_tuning(text);
    } else {
      const std::string problem =
          fmt::format("it is of version {} on {}, and this is {} on {}", file.library, file.device,
                      build_info::version, device);
      file = {};
      file.problem = problem;
    }
    file.on_disk = OnDisk::replaceable;
  } catch (const ConfigError& error) {
    file = {};
    file.on_disk = OnDisk::damaged;
    file.problem = text.empty() ? "it is empty" : error.what();
  }
  return file;
}

/// A copy beside `path` under a name that nothing has.
void copy_damaged(const std::filesystem::path& path) {
  const auto text = ir::read_file(path).bytes;
  if (!text) return;  // nothing that could be lost
  std::filesystem::path copy;
  std::error_code ignored;
  int number = 1;
  do copy = fmt::format("{}.damaged-{}", path.string(), number++);
  while (std::filesystem::exists(std::filesystem::symlink_status(copy, ignored)));
  write_atomically(copy, *text, "COCONET_TUNE_FILE");
  log_warn(
      fmt::format("the tuning file '{}' is replaced; what was in it, and is damaged, is in "
                  "'{}'",
                  path.string(), copy.string()));
}

}  // namespace

TuningFile read_tuning(Comm& comm, const Platform& platform, const Config& config) {
  TuningFile file;
  const std::string device = device_of(platform);
  if (const auto text = read_text(comm, config.tune_file, file)) file = parse_ours(*text, device);
  static std::atomic<bool> was_told = false;
  if (!file.problem.empty() && comm.rank() == 0 && !was_told.exchange(true)) {
    log_warn(fmt::format("the tuning file '{}' is ignored: {}", config.tune_file.string(),
                         file.problem));
  }
  file.library = build_info::version;
  file.device = device;
  return file;
}

bool measure_machine(const World& world, TuningFile& file, const Measuring& measuring) {
  Comm& comm = comm_of(world);
  const Platform& platform = platform_of(comm);
  const int ranks = comm.size();
  const int cores = platform.cores_of(comm, comm.config()).count;
  // What was measured whole stays until all of it was measured again.
  const bool is_again = file.machine(ranks, cores) != nullptr;
  TuningFile next = file;
  const auto begun = next.begun.find(ranks);
  if (begun != next.begun.end() && begun->second.cores != cores) next.begun.erase(begun);
  const auto keep = [&] {
    if (!is_again && measuring.keep) measuring.keep(next);
  };
  const bool is_whole = calibrate(world, next.begun[ranks], keep, measuring.interrupted);
  if (is_whole) next.machines[ranks] = std::move(next.begun[ranks]);
  if (is_whole) next.begun.erase(ranks);
  if (is_whole || !is_again) file = std::move(next);
  if (is_whole && measuring.keep) measuring.keep(file);
  return is_whole;
}

bool is_outdated(Comm& comm, const sched::Cluster& machine) {
  constexpr std::chrono::days too_old{90};
  if (!machine.measured) return false;
  const auto today = std::chrono::floor<std::chrono::days>(std::chrono::system_clock::now());
  const auto then = sched::parse_day(machine.measured->on);
  if (comm.any_failed(then && today - *then > too_old, 0)) {
    log_info(
        fmt::format("the machine was measured on {}, and is measured again", machine.measured->on));
    return true;
  }
  if (machine.measured->preempted < is_busy || !is_machine_quiet(comm)) return false;
  log_info(
      fmt::format("other processes took {:.0f} % of the ranks' processors when the machine was "
                  "measured; they are gone, and it is measured again",
                  100 * machine.measured->preempted));
  return true;
}

std::optional<sched::Cluster> known_machine(int ranks) {
  const World self = World::self();
  const TuningFile file =
      read_tuning(comm_of(self), platform_of(comm_of(self)), comm_of(self).config());
  // As many as ranks have that share this node's cores.
  const std::vector<Cores> by_rank(ranks, available_cores());
  const int wanted = comm_of(self).config().cores;
  const sched::Cluster* const machine =
      file.machine(ranks, wanted > 0 ? wanted : cores_of_each(by_rank));
  if (machine == nullptr) return {};
  return *machine;
}

void require_replaceable(const TuningFile& file, const Config& config) {
  if (file.on_disk != OnDisk::unreadable) return;
  throw BackendError(
      fmt::format("Cannot replace the file '{}' of COCONET_TUNE_FILE: {}, and what is in it would "
                  "be lost.",
                  config.tune_file.string(), file.problem));
}

void write_tuning(Comm& comm, TuningFile& file, const Config& config) {
  together(comm, [&] {
    if (comm.rank() != 0 || config.tune_file.empty()) return;
    require_replaceable(file, config);
    if (file.on_disk == OnDisk::damaged) copy_damaged(config.tune_file);
    // Like the kernel cache, which it may be: only a folder of the owner alone is trusted.
    std::error_code ignored;
    const std::filesystem::path folder = config.tune_file.parent_path();
    if (std::filesystem::create_directories(folder, ignored))
      std::filesystem::permissions(folder, std::filesystem::perms::owner_all, ignored);
    write_atomically(config.tune_file, to_json(file), "COCONET_TUNE_FILE");
  });
  file.on_disk = OnDisk::replaceable;
}

}  // namespace coconet::jit
