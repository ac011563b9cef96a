// The tuning file: what was measured on a machine, kept for later processes: the machine itself,
// and the quickest schedules of programs.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coconet/executable.h"
#include "jit/comm/comm.h"
#include "jit/platform/platform.h"
#include "sched/cost/cluster.h"

namespace coconet::jit {

struct TuningFile {
  /// The quickest schedule of a program at some sizes.
  struct Choice {
    Sizes sizes;
    std::string schedule;  ///< as JSON
    double ms = 0;
    double over_unfused = 1;  ///< its time over that of the program without a schedule
    bool collectives_by_mpi = false;
    double preempted = 0;    ///< the share of the ranks' processors that others took meanwhile
    std::string doubt = {};  ///< why it may not be the quickest; empty where nothing says so
  };
  struct TunedProgram {
    std::string name;
    std::string digest;  ///< of the program, its mesh, its dtypes and the cores of a rank
    std::vector<Choice> choices;
  };
  std::string library;                     ///< the version that measured
  std::string device;                      ///< what it measured on
  std::map<int, sched::Cluster> machines;  ///< by ranks
  std::map<int, sched::Cluster> begun;     ///< those whose measurement was interrupted, by ranks
  std::vector<TunedProgram> programs;

  /// What is on the disk: only what was read, and what is of another device or version, may be
  /// replaced without a copy.
  enum class OnDisk { nothing, replaceable, damaged, unreadable };
  OnDisk on_disk = OnDisk::nothing;
  std::string problem;  ///< of what is damaged or unreadable

  [[nodiscard]] const TunedProgram* find(std::string_view digest) const;
  /// The machine as it was measured with so many ranks of so many cores each; null where it was
  /// not.
  [[nodiscard]] const sched::Cluster* machine(int ranks, int cores) const;
  /// Puts it in the place of what is there for the program and the same sizes.
  void set(const std::string& name, const std::string& digest, Choice choice);
};

/// Which program, for ranks of so many `cores` each: what a tuning file knows it by.
[[nodiscard]] std::string digest_of(const Program& program, int cores);

/// The choice made nearest to `sizes`: every extent within a factor of 2, but for numbers of
/// buffers. Null where there is none.
[[nodiscard]] const TuningFile::Choice* nearest_choice(const TuningFile::TunedProgram& program,
                                                       const Sizes& sizes);

/// Throws ConfigError with the JSON pointer of what is wrong.
[[nodiscard]] TuningFile parse_tuning(std::string_view json);
/// Who measured, on what: `library` and `device` alone, which say whether the rest can be read.
[[nodiscard]] TuningFile parse_tuning_origin(std::string_view json);
[[nodiscard]] std::string to_json(const TuningFile& file);

/// Collective: what COCONET_TUNE_FILE of rank 0 has, the same on all ranks; an empty one where
/// there is no file, or it is of another device or version, malformed or cannot be read, which is
/// warned of.
[[nodiscard]] TuningFile read_tuning(Comm& comm, const Platform& platform, const Config& config);

/// How measurements that take seconds are kept, and how they end early.
struct Measuring {
  /// Called on all ranks whenever there is more to keep.
  std::function<void(TuningFile& file)> keep = {};
  /// Asked on every rank between measurements; any rank's yes ends them.
  std::function<bool()> interrupted = {};
};
/// Collective: measures the machine at hand, with as many ranks as `world` has, into `file`. Goes
/// on from where it was interrupted before. Whether it came to its end.
[[nodiscard]] bool measure_machine(const World& world, TuningFile& file,
                                   const Measuring& measuring);
/// Collective: whether the machine was measured more than 90 days ago, or beside other processes
/// that are gone.
[[nodiscard]] bool is_outdated(Comm& comm, const sched::Cluster& machine);
/// This machine as COCONET_TUNE_FILE has it, with so many ranks; nothing where it does not.
[[nodiscard]] std::optional<sched::Cluster> known_machine(int ranks);
/// Throws BackendError where the file on the disk cannot be read, and would be lost.
void require_replaceable(const TuningFile& file, const Config& config);
/// Collective: rank 0 replaces the file, as a whole; of a damaged one a copy stays beside it, which
/// is warned of. Throws BackendError on all ranks when it cannot.
void write_tuning(Comm& comm, TuningFile& file, const Config& config);

}  // namespace coconet::jit
