// The `coconet` command: reads the command line and calls the subcommand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/options.h"
#include "ir/graph.h"
#include "jit/comm/comm.h"
#include "jit/config/build_info.h"

namespace coconet::cli {
namespace {

/// The exit code of a command line that CLI11 does not take.
int complain_of(const CLI::App& app, const CLI::ParseError& error, int argc, char** argv) {
  const CLI::App* at = &app;
  std::string name = "coconet";
  int depth = 1;
  for (auto chosen = at->get_subcommands(); !chosen.empty(); chosen = at->get_subcommands()) {
    at = chosen.front();
    name += " " + at->get_name();
    ++depth;
  }
  std::vector<std::string> known;
  for (const CLI::App* one : at->get_subcommands([](const CLI::App*) { return true; }))
    known.push_back(one->get_name());
  if (known.empty() || argc <= depth || argv[depth][0] == '-')
    return fail_alike(fmt::format("{} (see {} --help)", error.what(), name), exit_usage);
  return fail_alike(
      fmt::format("There is no subcommand '{}'{}{}", argv[depth], depth > 1 ? " of " + name : "",
                  ir::suggestion(argv[depth], known, "; see " + name + " --help")),
      exit_usage);
}

/// The subcommands, what their options were given, and what is to be run.
struct Commands {
  Raw raw;
  RunOptions run_options;
  ExplainOptions explain_options;
  LegalOptions legal_options;
  CompileOptions compile_options, cache_explain_options;
  SimOptions sim_options;
  TuneOptions tune_options;
  std::string calibrate_out;
  bool cache_list_json = false;
  CachePruneOptions prune_options;
  ProgramsOptions programs_options;
  std::function<int()> chosen;

  explicit Commands(CLI::App& app) {
    when(add_run(app, run_options, raw), [this] {
      read_run(raw, run_options);
      return run(run_options);
    });
    when_on_spec(add_explain(app, explain_options, raw), explain_options, explain);
    when_on_spec(add_legal(app, legal_options, raw), legal_options, legal);
    when_on_spec(add_compile(app, compile_options, raw), compile_options, compile);
    when_on_spec(add_sim(app, sim_options, raw), sim_options, sim);
    when_on_spec(add_tune(app, tune_options, raw), tune_options, tune);
    when(add_calibrate(app, calibrate_out), [this] { return calibrate(calibrate_out); });
    add_cache(add_command(app, "cache", "Look into the kernel cache, check it, clean it",
                          cache_examples));
    CLI::App& listing = *app.add_subcommand("programs", "List the programs that ship");
    listing.add_flag("--schedules", programs_options.schedules,
                     "List PROGRAM SCHEDULE pairs, one a line");
    listing.add_flag("--hyper", programs_options.hyperparameters,
                     "The hyperparameters of optimizers instead, with their defaults");
    when(listing, [this] { return programs(programs_options); });
    when(
        *app.add_subcommand("doctor", "Say what is here, what is missing, and what that turns off"),
        doctor);
  }

 private:
  void when(CLI::App& command, std::function<int()> run) {
    command.callback([this, run = std::move(run)] { chosen = run; });
  }

  template <class Options>
  void when_on_spec(CLI::App& command, Options& options, int (*subcommand)(const Options&)) {
    when(command, [this, &options, subcommand] {
      read_spec(raw, options.spec);
      if constexpr (requires { options.lists; }) read_lists(raw, options.lists);
      return subcommand(options);
    });
  }

  void add_cache(CLI::App& cache) {
    cache.require_subcommand(1);
    CLI::App& list =
        add_command(cache, "list", "List the entries, used last first", cache_list_examples);
    list.add_flag("--json", cache_list_json, "As JSON");
    when(list, [this] { return cache_list(cache_list_json); });
    when(add_command(cache, "verify", "Check every entry", cache_verify_examples), cache_verify);
    CLI::App& explain = add_command(
        cache, "explain", "Say where a program's kernels are, or why not", cache_explain_examples);
    add_spec(explain, cache_explain_options.spec, raw);
    add_ranks(explain, cache_explain_options.ranks);
    add_targets(explain, cache_explain_options);
    when_on_spec(explain, cache_explain_options, cache_explain);
    CLI::App& prune =
        add_command(cache, "prune", "Remove what was used the longest ago", cache_prune_examples);
    add_prune(prune, prune_options, raw);
    when(prune, [this] {
      read_prune(raw, prune_options);
      return cache_prune(prune_options);
    });
    when(add_command(cache, "stats", "Say how much is there, and the limits", cache_stats_examples),
         cache_stats);
    when(add_command(cache, "clear", "Remove all entries", cache_clear_examples), cache_clear);
  }
};

int command(int argc, char** argv) {
  CLI::App app(
      "coconet: distributed steps whose computation and communication are compiled together");
  app.set_version_flag("--version", fmt::format("coconet {}", jit::build_info::version));
  app.footer(overview_examples);
  app.require_subcommand(1);
  Commands commands(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return launch().rank == 0 ? app.exit(asked) : exit_ok;
  } catch (const CLI::ParseError& error) {
    return complain_of(app, error, argc, argv);
  }
  return commands.chosen();
}

}  // namespace
}  // namespace coconet::cli

int main(int argc, char** argv) {
  using namespace coconet::cli;
  try {
    return command(argc, argv);
  } catch (const UsageError& error) {
    return fail_alike(error.what(), exit_usage);
  } catch (...) {
    return fail_alike(coconet::jit::message_of(std::current_exception()), exit_failure);
  }
}
