// The `coconet` command: reads the command line and calls the subcommand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/help.h"
#include "cli/launch.h"
#include "cli/options.h"
#include "ir/graph.h"
#include "jit/comm/comm.h"
#include "jit/config/build_info.h"
#include "jit/config/parse.h"

namespace coconet::cli {
namespace {

/// `coconet cache`.
struct Cache {
  CLI::App& command;
  CacheListOptions list_options;
  CompileOptions explain_options;
  CachePruneOptions prune_options;
  CLI::App& list = add("list", "List the entries, used last first", cache_list_examples);
  CLI::App& verify = add("verify", "Check every entry", cache_verify_examples);
  CLI::App& explain =
      add("explain", "Say where a program's kernels are, or why not", cache_explain_examples);
  CLI::App& prune = add("prune", "Remove what was used the longest ago", cache_prune_examples);
  CLI::App& stats = add("stats", "Say how much is there, and the limits", cache_stats_examples);
  CLI::App& clear = add("clear", "Remove all entries", cache_clear_examples);

  Cache(CLI::App& app, Raw& raw)
      : command(add_command(app, "cache", "Look into the kernel cache, check it, clean it",
                            cache_examples)) {
    command.require_subcommand(1);
    list.add_flag("--json", list_options.json, "As JSON");
    add_spec(explain, explain_options.spec, raw);
    add_ranks(explain, explain_options.ranks);
    add_targets(explain, explain_options);
    prune
        .add_option("--max-size", raw.max_size,
                    "Bytes to keep at most, such as 500M or 2G; 0: any number; default "
                    "COCONET_CACHE_MAX_SIZE")
        ->type_name("SIZE");
    prune
        .add_option("--max-files", prune_options.max_files,
                    "Entries to keep at most; 0: any number; default COCONET_CACHE_MAX_FILES")
        ->type_name("N")
        ->check(CLI::NonNegativeNumber);
  }

  [[nodiscard]] int run(const Raw& raw) {
    if (list) return cache_list(list_options);
    if (verify) return cache_verify();
    if (prune) {
      if (!raw.max_size.empty()) prune_options.max_size = jit::parse_bytes(raw.max_size);
      if (!raw.max_size.empty() && !prune_options.max_size) {
        throw UsageError("--max-size takes bytes such as 100000, 500M or 2G, not '" + raw.max_size +
                         "'.");
      }
      return cache_prune(prune_options);
    }
    if (stats) return cache_stats();
    if (clear) return cache_clear();
    read_spec(raw, explain_options.spec);
    return cache_explain(explain_options);
  }

 private:
  CLI::App& add(const char* name, const char* what, const char* examples) {
    return add_command(command, name, what, examples);
  }
};

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
  const std::string near = ir::nearest(argv[depth], known);
  return fail_alike(
      fmt::format("There is no subcommand '{}'{}; {}", argv[depth],
                  (depth > 1 ? " of " + name : ""),
                  (near.empty() ? "see " + name + " --help" : "did you mean '" + near + "'?")),
      exit_usage);
}

/// The subcommands and what their options were given.
struct Commands {
  Raw raw;
  RunOptions run_options;
  ExplainOptions explain_options;
  LegalOptions legal_options;
  CompileOptions compile_options;
  SimOptions sim_options;
  TuneOptions tune_options;
  CalibrateOptions calibrate_options;
  ProgramsOptions programs_options;
  const CLI::App& run_command;
  const CLI::App& explain_command;
  const CLI::App& legal_command;
  const CLI::App& compile_command;
  const CLI::App& sim_command;
  const CLI::App& tune_command;
  const CLI::App& calibrate_command;
  Cache cache;
  CLI::App& programs_command;
  const CLI::App& doctor_command;

  explicit Commands(CLI::App& app)
      : run_command(add_run(app, run_options, raw)),
        explain_command(add_explain(app, explain_options, raw)),
        legal_command(add_legal(app, legal_options, raw)),
        compile_command(add_compile(app, compile_options, raw)),
        sim_command(add_sim(app, sim_options, raw)),
        tune_command(add_tune(app, tune_options, raw)),
        calibrate_command(add_calibrate(app, calibrate_options)),
        cache(app, raw),
        programs_command(*app.add_subcommand("programs", "List the programs that ship")),
        doctor_command(*app.add_subcommand(
            "doctor", "Say what is here, what is missing, and what that turns off")) {
    programs_command.add_flag("--schedules", programs_options.schedules,
                              "List PROGRAM SCHEDULE pairs, one a line");
    programs_command.add_flag("--hyper", programs_options.hyperparameters,
                              "The hyperparameters of optimizers instead, with their defaults");
  }

  /// Runs the subcommand that the command line named; its exit code.
  [[nodiscard]] int run_chosen() {
    if (run_command) {
      read_run(raw, run_options);
      return run(run_options);
    }
    if (explain_command) return run_on_spec(explain_options, explain);
    if (legal_command) return run_on_spec(legal_options, legal);
    if (compile_command) return run_on_spec(compile_options, compile);
    if (sim_command) return run_on_spec(sim_options, sim);
    if (tune_command) return run_on_spec(tune_options, tune);
    if (calibrate_command) return calibrate(calibrate_options);
    if (cache.command) return cache.run(raw);
    if (programs_command) return programs(programs_options);
    if (doctor_command) return doctor();
    return exit_usage;
  }

 private:
  template <class Options>
  [[nodiscard]] int run_on_spec(Options& options, int (*subcommand)(const Options&)) {
    read_spec(raw, options.spec);
    return subcommand(options);
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
  return commands.run_chosen();
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
