// The subcommands of `coconet`: what each is told on its command line, and the function that does
// it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "coconet/dtype.h"
#include "coconet/executable.h"
#include "coconet/programs.h"

namespace coconet::cli {

/// Exit codes of the command.
inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_usage = 2;

/// The command line is wrong: exit code 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The program and the schedule that a command line names: of `run`, `explain`, `compile` and
/// `cache explain`.
struct ProgramSpec {
  std::string program;         ///< a shipped name or a JSON file
  std::string schedule;        ///< a shipped short name or a JSON file; empty: none
  std::optional<DType> dtype;  ///< shipped programs only; f32 when not given
  Sizes sizes;                 ///< --set
  std::optional<int> nodes;  ///< of a shipped program: its mesh is {node, gpu}, with as many nodes
  bool scattered = false;    ///< the shipped program with its parameters scattered over buffers
  programs::TrainingOptions training;         ///< of a shipped optimizer
  programs::Hyperparameters hyperparameters;  ///< --hyper
  /// --master-weights, with which an optimizer is in mixed precision
  std::optional<programs::MasterWeights> master_weights;
  std::optional<int> layers;  ///< of a shipped model
};

struct RunOptions {
  ProgramSpec spec;
  std::optional<int> iterations;  ///< timed steps; default 20, or 3 with `check`
  std::optional<int> warmup;      ///< steps before those; default 3, or 0 with `check`
  bool check = false;
  std::string json;   ///< file to write, or empty
  std::string trace;  ///< file for where the kernels of the first 64 steps are in time, or empty
  std::string world;  ///< "mpi", "self", "local:N", or empty: what this process was started as
  std::map<std::string, double> scalars;  ///< --scalar
  ParameterLists lists;                   ///< --list; missing ones are made up
  /// --input and --output: .npy files by tensor
  std::map<std::string, std::string> inputs, outputs;
  std::string state_dict;         ///< directory for the states with PyTorch's names, or empty
  std::string save;               ///< directory for checkpoints, or empty
  std::optional<int> save_every;  ///< steps between checkpoints; default: one after the last step
  int keep = 0;                   ///< checkpoints that stay; 0: all
  std::string resume;             ///< checkpoint to go on from, or directory of some, or empty
  /// --may-be-first-start: what `resume` names may be missing
  bool may_be_first_start = false;
};

struct ExplainOptions {
  ProgramSpec spec;
  std::optional<int> ranks;  ///< default: the program file's mesh, or 2
  std::string show = "ir";   ///< "ir", "plan", "source", "kernels", "dot" or "svg"
  std::string arch;          ///< "kernels": the architecture; default COCONET_ARCH, or sm_90
  std::string cluster;       ///< "plan": what times are predicted for; empty: this machine
};

struct LegalOptions {
  ProgramSpec spec;
  std::optional<int> ranks;  ///< default: the program file's mesh, or 2
};

struct CompileOptions {
  ProgramSpec spec;
  std::optional<int> ranks;        ///< default: the program file's mesh, or 2
  std::vector<std::string> archs;  ///< "host" and "sm_90"; default COCONET_ARCH, or "host"
  bool share_gpu = false;          ///< all ranks are threads of a process and share a GPU
};

struct SimOptions {
  ProgramSpec spec;                ///< its schedule, or with none every one that there is
  std::string cluster;             ///< a shipped cluster or a JSON file
  std::vector<std::string> sizes;  ///< --sizes
};

struct TuneOptions {
  ProgramSpec spec;
  std::vector<std::string> sizes;  ///< --sizes
  ParameterLists lists;            ///< --list; missing ones are of one buffer
  std::string cluster;             ///< that predictions are for; empty: this machine
  std::string out;                 ///< file for the schedule, or empty
  std::string report;              ///< HTML file, or empty
  std::string json;                ///< file for all that was measured, or empty
  bool exhaustive = false;         ///< nothing is predicted away
};

struct CachePruneOptions {
  std::optional<std::uint64_t> max_size;   ///< bytes; default COCONET_CACHE_MAX_SIZE
  std::optional<std::uint64_t> max_files;  ///< default COCONET_CACHE_MAX_FILES
};

struct ProgramsOptions {
  bool schedules = false;        ///< list their schedules
  bool hyperparameters = false;  ///< list their hyperparameters
};

/// Each returns the exit code, and throws UsageError or coconet::Error.
[[nodiscard]] int run(const RunOptions& options);
[[nodiscard]] int explain(const ExplainOptions& options);
[[nodiscard]] int legal(const LegalOptions& options);
[[nodiscard]] int compile(const CompileOptions& options);
[[nodiscard]] int sim(const SimOptions& options);
[[nodiscard]] int tune(const TuneOptions& options);
/// `out`: file for the cluster, or empty.
[[nodiscard]] int calibrate(const std::string& out);
[[nodiscard]] int cache_list(bool as_json);
[[nodiscard]] int cache_verify();
[[nodiscard]] int cache_explain(const CompileOptions& options);
[[nodiscard]] int cache_prune(const CachePruneOptions& options);
[[nodiscard]] int cache_stats();
[[nodiscard]] int cache_clear();
[[nodiscard]] int programs(const ProgramsOptions& options);
[[nodiscard]] int doctor();

}  // namespace coconet::cli
