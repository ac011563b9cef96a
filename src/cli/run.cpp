// `coconet run`: compiles a program under a schedule, runs it on the ranks of a world, times it,
// and checks it.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/commands.h"
#include "cli/data.h"
#include "cli/launch.h"
#include "cli/program_spec.h"
#include "cli/state_dict.h"
#include "cli/trace.h"
#include "cli/user_data.h"
#include "coconet/error.h"
#include "coconet/executable.h"
#include "coconet/world.h"
#include "ir/access.h"
#include "ir/ascii.h"
#include "ir/extents.h"
#include "ir/graph.h"
#include "ir/json/text.h"
#include "jit/comm/access.h"
#include "jit/comm/comm.h"
#include "jit/config/files.h"

namespace coconet::cli {
namespace {

/// What a run found, for people and for the JSON file.
struct Outcome {
  Sizes sizes;
  std::string dtype;
  int timed = 0;
  double ms_median = 0;
  Report report;
  std::optional<CheckResult> check;
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// The dtype of what the program keeps: its first state, else its first input.
std::string dtype_of_program(const ir::Graph& graph) {
  for (const ir::Op op : {ir::Op::state, ir::Op::input}) {
    for (const ir::Node& node : graph.nodes()) {
      if (node.op == op) return std::string(to_string(node.dtype));
    }
  }
  return "none";
}

void require_scalars(const ir::Graph& graph, const std::map<std::string, double>& given) {
  std::vector<std::string> known;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::scalar) known.push_back(node.name);
  }
  for (const auto& [name, value] : given) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw UsageError(
        fmt::format("--scalar: the program '{}' has no scalar '{}'; {}.", graph.name, name,
                    known.empty() ? "it has none at all"
                                  : fmt::format("its scalars are {}", fmt::join(known, ", "))));
  }
}

std::string counted(int count, const char* what) {
  return fmt::format("{} {}{}", count, what, (count == 1 ? "" : "s"));
}

nlohmann::ordered_json as_json(const RunOptions& options, const ResolvedSpec& resolved,
                               const World& world, const Outcome& outcome) {
  auto kernels = nlohmann::ordered_json::array();
  for (const KernelReport& kernel : outcome.report.kernels) {
    kernels.push_back({{"name", kernel.name},
                       {"kind", kernel.kind},
                       {"ms", kernel.ms},
                       {"bytes", kernel.bytes},
                       {"peer_bytes", kernel.peer_bytes},
                       {"bound", kernel.bound},
                       {"roofline_share", kernel.roofline_share},
                       {"exchange_bytes", kernel.exchange_bytes}});
  }
  const CacheCounters& cache = outcome.report.cache;
  nlohmann::ordered_json json = {{"program", options.spec.program},
                                 {"schedule", resolved.schedule_name()},
                                 {"ranks", world.size()},
                                 {"world", world.kind()},
                                 {"nodes", world.nodes()},
                                 {"sizes", outcome.sizes},
                                 {"dtype", outcome.dtype},
                                 {"master_weights", nullptr},
                                 {"iters", outcome.timed},
                                 {"ms_median", outcome.ms_median},
                                 {"bytes", outcome.report.bytes},
                                 {"peer_bytes", outcome.report.peer_bytes},
                                 {"roofline_share", outcome.report.roofline_share},
                                 {"max_rel_error", nullptr},
                                 {"bit_identical", nullptr},
                                 {"table_bytes", outcome.report.table_bytes},
                                 {"notes", outcome.report.notes},
                                 {"cache",
                                  {{"hit_memory", cache.hit_memory},
                                   {"hit_disk", cache.hit_disk},
                                   {"hit_peer", cache.hit_peer},
                                   {"miss", cache.miss},
                                   {"compile_ms", cache.compile_ms},
                                   {"corrupt", cache.corrupt},
                                   {"publish_lost", cache.publish_lost}}},
                                 {"kernels", kernels}};
  if (options.spec.master_weights) json["master_weights"] = to_string(*options.spec.master_weights);
  if (outcome.check) {
    json["max_rel_error"] = outcome.check->max_rel_error;
    json["bit_identical"] = outcome.check->bit_identical;
  }
  return json;
}

void print(const RunOptions& options, const ResolvedSpec& resolved, const World& world,
           const Outcome& outcome) {
  std::string sizes;
  for (const auto& [name, extent] : outcome.sizes) sizes += fmt::format(", {} = {}", name, extent);
  std::string dtype = outcome.dtype;
  if (options.spec.master_weights)
    dtype += fmt::format(" with master weights ({})", to_string(*options.spec.master_weights));
  const std::string nodes = world.nodes() > 1 ? ", " + counted(world.nodes(), "node") : "";
  std::printf("%s, schedule %s, %s (%s), %s%s\n", options.spec.program.c_str(),
              resolved.schedule_name().c_str(), counted(world.size(), "rank").c_str(),
              (std::string(world.kind()) + nodes).c_str(), dtype.c_str(), sizes.c_str());
  std::string table = outcome.report.str();
  while (table.ends_with('\n')) table.pop_back();
  std::printf("%s\n", table.c_str());
  std::printf("median of the %s timed: %.4g ms\n", counted(outcome.timed, "step").c_str(),
              outcome.ms_median);
  if (outcome.check && outcome.check->passed) {
    std::printf("check passed: max relative error %.1e (tolerance %.1e), all ranks bit-identical\n",
                outcome.check->max_rel_error, outcome.check->tolerance);
  }
  std::fflush(stdout);
}

/// The scalar `t` of the last step that was run.
std::int64_t last_t(const RunOptions& options, int iterations) {
  const auto given = options.scalars.find("t");
  return given == options.scalars.end() ? iterations : std::llround(given->second);
}

constexpr const char* step_key = "step";  // of a checkpoint's metadata

void say(const World& world, const std::string& line) {
  if (world.rank() != 0) return;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

/// Collective: states and inputs as `--resume` and `--input` say, and how `drive` goes on from
/// there.
void begin(Executable& step, const World& world, const RunOptions& options, DriveOptions& drive) {
  const bool has_data = !options.inputs.empty();
  if (has_data) {
    give(step, world, options.inputs);
    drive.give = [](Executable&) {};
  }
  if (options.resume.empty()) return;
  const std::optional<Checkpoint> found =
      step.load_latest(options.resume, {.may_be_first_start = options.may_be_first_start});
  if (!found) {
    say(world, fmt::format("no checkpoint in '{}' yet: beginning anew", options.resume));
    return;
  }
  const auto at = found->metadata.find(step_key);
  const std::string text = at == found->metadata.end() ? "" : at->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), drive.first);
  if (error != std::errc() || *end != '\0' || drive.first < 1) {
    throw ConfigError(
        fmt::format("The checkpoint '{}' does not say in its metadata '{}' after how "
                    "many steps it was saved; resume from one of coconet run --save.",
                    found->path.string(), step_key));
  }
  drive.has_states = true;
  say(world, fmt::format("resumed from '{}'", found->path.string()));
}

/// Collective: saves where `--save` and `--save-every` say so, `taken` steps being done.
void save(Executable& step, const RunOptions& options, int taken, bool is_last) {
  if (options.save.empty()) return;
  if (!is_last && (!options.save_every || taken % *options.save_every != 0)) return;
  step.save(std::filesystem::path(options.save) / fmt::format("step-{}", taken),
            {.metadata = {{step_key, std::to_string(taken)}}, .keep = options.keep});
}

int run_on(const World& world, const RunOptions& options, const ResolvedSpec& resolved) {
  const bool has_data = !options.inputs.empty();
  const int warmup = options.warmup.value_or(options.check || has_data ? 0 : 3);
  Outcome outcome;
  outcome.timed = options.iterations.value_or(has_data ? 1 : options.check ? 3 : 20);
  std::optional<Program> written;
  ParameterLists lists;
  jit::together(jit::comm_of(world), [&] {  // mpirun may give each rank a command line of its own
    written = resolved.program(world.size());
    require_scalars(*ir::graph_of(*written), options.scalars);
    require_tensors(*written, options.inputs, options.outputs);
    if (!options.state_dict.empty()) require_optimizer(options.spec);
    if (has_data && options.check)
      throw UsageError("--check makes up data, and does not go with --input.");
    if (!options.resume.empty() && options.check)
      throw UsageError("--check follows all steps from the first, and does not go with --resume.");
    outcome.sizes = ir::resolve_sizes(*ir::graph_of(*written), options.spec.sizes, options.lists);
    lists = test_lists(*ir::graph_of(*written), outcome.sizes);
    for (const auto& [name, lengths] : options.lists) lists[name] = lengths;
    outcome.sizes = ir::resolve_sizes(*ir::graph_of(*written), outcome.sizes, lists);
    outcome.dtype = dtype_of_program(*ir::graph_of(*written));
  });
  const Program& program = *written;

  CheckOptions check;
  check.drive.iterations = warmup + outcome.timed;
  check.drive.scalars = options.scalars;
  check.lists = lists;
  check.drive.fresh_inputs = options.check;

  if (!options.state_dict.empty()) make_state_directory(world, options.state_dict);
  Executable step = compile(program, resolved.schedule(), world, outcome.sizes, lists);
  if (!options.trace.empty()) step.start_trace();
  begin(step, world, options, check.drive);
  const int last = check.drive.first + check.drive.iterations;
  check.drive.after = [&](Executable& of, int taken) { save(of, options, taken, taken == last); };
  std::vector<double> ms = drive(step, world, outcome.sizes, check.drive);
  ms.erase(ms.begin(), ms.begin() + warmup);
  outcome.ms_median = median(ms);
  if (options.check) outcome.check = compare(step, program, world, outcome.sizes, check);
  take(step, world, options.outputs, "--output");
  if (!options.state_dict.empty())
    write_state_dict(step, world, options.state_dict, last_t(options, last));
  outcome.report = step.report();
  const std::string trace = options.trace.empty() ? "" : trace_json(step, world);

  jit::together(jit::comm_of(world), [&] {
    if (world.rank() != 0) return;
    print(options, resolved, world, outcome);
    if (!options.json.empty()) {
      jit::write_atomically(options.json,
                            ir::json_text(as_json(options, resolved, world, outcome), 2) + "\n",
                            "--json");
    }
    if (!options.trace.empty()) jit::write_atomically(options.trace, trace, "--trace");
    if (outcome.check && !outcome.check->passed)
      complain("check failed: " + outcome.check->failure);
  });
  return outcome.check && !outcome.check->passed ? exit_failure : exit_ok;
}

/// N of "local:N".
int local_ranks(const std::string& world) {
  const std::string digits = world.substr(world.find(':') + 1);
  const bool number =
      !digits.empty() && digits.size() <= 4 && std::ranges::all_of(digits, ir::is_digit);
  const int ranks = number ? std::stoi(digits) : 0;
  if (ranks < 1)
    throw UsageError("--world local:N takes a number of ranks from 1, not '" + world + "'.");
  return ranks;
}

int run_local(int ranks, const RunOptions& options, const ResolvedSpec& resolved) {
  std::atomic<int> code = exit_ok;
  World::local(ranks, [&](World& world) {
    const int mine = run_on(world, options, resolved);
    if (world.rank() == 0) code = mine;
  });
  return code;
}

}  // namespace

int run(const RunOptions& options) {
  const ResolvedSpec resolved(options.spec);
  const std::string kind = !options.world.empty() ? options.world
                           : launch().by_mpi      ? "mpi"
                                                  : "self";
  if (kind.starts_with("local:")) return run_local(local_ranks(kind), options, resolved);
  if (kind != "mpi" && kind != "self") {
    throw UsageError("--world is mpi, self or local:N, not '" + kind + "'.");
  }
  const World world = kind == "mpi" ? World::mpi() : World::self();
  return guarded(world, [&] { return run_on(world, options, resolved); });
}

}  // namespace coconet::cli
