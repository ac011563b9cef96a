// The `coconet` command: reads the command line and calls the subcommand.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/subject.h"
#include "ir/graph.h"
#include "jit/config/build_info.h"

namespace coconet::cli {
namespace {

constexpr const char* overview_examples = R"(Examples:
  coconet doctor                                       what this machine offers
  coconet programs                                     what ships
  coconet explain adam --schedule fused                what a schedule does to a program
  coconet compile adam --schedule fused --arch sm_90   fill the cache, also for other machines
  mpirun -n 2 coconet run adam --schedule fused --check
`coconet COMMAND --help` tells more. Exit codes: 0 success, 1 failure, 2 wrong command line.)";

constexpr const char* run_examples = R"(Examples:
  mpirun -n 2 coconet run adam --schedule fused --set n=2^24
  mpirun -n 4 coconet run adamw --schedule sliced --dtype bf16 --check
  coconet run adam --schedule fused --world local:3 --check --json result.json
  mpirun -n 2 coconet run lamb --scattered --list n=768,1,4099,2^20 --schedule fused --check
  mpirun -n 8 coconet run program.json --schedule schedule.json --scalar lr=1e-3

The data are made up, the same on every run. --check compares every state and output on every rank with a naive
interpretation of the program, and the ranks with each other; a difference is exit code 1.)";

constexpr const char* compile_examples = R"(Examples:
  coconet compile adam --schedule fused                              for this machine
  coconet compile adam --schedule fused --arch sm_90 --ranks 8       for a cluster, with no GPU here
  coconet compile step.json --schedule s.json --arch sm_80 --arch sm_100
A kernel serves all sizes, but one number of ranks only.)";

constexpr const char* explain_examples = R"(Examples:
  coconet explain adam --schedule fused                the program after each step of the schedule
  coconet explain adam --schedule sliced --show plan   the kernels and collectives, with their buffers
  coconet explain adam --schedule fused --show source  the generated kernels
  coconet explain adam --schedule fused --show kernels --arch sm_90    their registers and memory
  coconet explain adam --schedule fused --show dot | dot -Tsvg -o adam.svg
Lines that begin with + or - were added or removed by the step.)";

/// The text of an option as CLI11 got it, before it is understood.
struct Raw {
  std::vector<std::string> sizes;
  std::vector<std::string> scalars;
  std::vector<std::string> lists;
  std::string dtype;
};

/// NAME=VALUE options may be repeated, each taking one value, so that a PROGRAM may follow them.
CLI::Option* repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->type_name("NAME=VALUE")->allow_extra_args(false);
}

void add_subject(CLI::App& command, Subject& subject, Raw& raw) {
  command
      .add_option("PROGRAM", subject.program,
                  "A program that ships (see `coconet programs`), or a JSON file")
      ->required()
      ->type_name("");
  command
      .add_option(
          "--schedule", subject.schedule,
          "A schedule that ships with PROGRAM (`coconet programs` lists them), or a JSON file; "
          "default: none")
      ->type_name("NAME|FILE");
  repeated(command, "--set", raw.sizes,
           "Extent of a dimension, such as n=4099 or n=2^20; may be repeated");
  command
      .add_option(
          "--nodes", subject.nodes,
          "A program that ships, on the mesh {node: K, gpu: ranks / K}, with schedules for it")
      ->type_name("K")
      ->check(CLI::Range(1, 65536));
  command.add_flag("--scattered", subject.scattered,
                   "A program that ships, with its parameters over a list of buffers");
  command
      .add_option("--dtype", raw.dtype,
                  "Element type of a program that ships: f32 (default), f64, f16 or bf16")
      ->type_name("DTYPE");
}

void add_ranks(CLI::App& command, std::optional<int>& ranks) {
  command.add_option("--ranks", ranks, "Ranks to plan for; default 2, or as a file says")
      ->type_name("R")
      ->check(CLI::Range(1, 65536));
}

void read_subject(const Raw& raw, Subject& subject) {
  if (!raw.dtype.empty()) {
    subject.dtype = parse_dtype(raw.dtype);
    if (!subject.dtype || !is_float(*subject.dtype)) {
      throw UsageError("--dtype is f32, f64, f16 or bf16, not '" + raw.dtype + "'.");
    }
  }
  for (const std::string& text : raw.sizes) {
    const auto [name, extent] = parse_size(text);
    if (!subject.sizes.emplace(name, extent).second) {
      throw UsageError("--set gives the dimension '" + name + "' twice.");
    }
  }
}

int command(int argc, char** argv) {
  CLI::App app(
      "coconet: distributed steps whose computation and communication are compiled together");
  app.set_version_flag("--version", "coconet " + std::string(jit::build_info::version));
  app.footer(overview_examples);
  app.require_subcommand(1);

  Raw raw;
  RunOptions run_options;
  CLI::App& run_command =
      *app.add_subcommand("run", "Run a program on the ranks of mpirun, time it, check it");
  run_command.footer(run_examples);
  add_subject(run_command, run_options.subject, raw);
  run_command
      .add_option("--iters", run_options.iterations, "Steps to time; default 20, with --check 3")
      ->type_name("K")
      ->check(CLI::Range(1, 1'000'000'000));
  run_command
      .add_option("--warmup", run_options.warmup, "Steps before those; default 3, with --check 0")
      ->type_name("W")
      ->check(CLI::Range(0, 1'000'000'000));
  run_command.add_flag("--check", run_options.check,
                       "Compare with the reference, and the ranks with each other");
  run_command.add_option("--json", run_options.json, "Write the result to FILE")->type_name("FILE");
  run_command
      .add_option("--world", run_options.world,
                  "mpi; self: one rank; local:N: N threads of this process. Default: mpi under "
                  "mpirun, else self")
      ->type_name("WORLD");
  repeated(run_command, "--scalar", raw.scalars,
           "Value of a run-time scalar; default lr=0.01, t=the step number, others 0.5; may be "
           "repeated");

  repeated(run_command, "--list", raw.lists,
           "Lengths of the buffers of a dimension, such as n=768,1,2^20; may be repeated; default: "
           "uneven ones");

  ExplainOptions explain_options;
  CLI::App& explain_command =
      *app.add_subcommand("explain", "Show what a schedule makes of a program");
  explain_command.footer(explain_examples);
  add_subject(explain_command, explain_options.subject, raw);
  add_ranks(explain_command, explain_options.ranks);
  explain_command
      .add_option(
          "--show", explain_options.show,
          "ir (default): the program after each step; plan; source; kernels: what they take of a "
          "GPU; dot: a Graphviz picture")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"ir", "plan", "source", "kernels", "dot"}));
  explain_command
      .add_option("--arch", explain_options.arch,
                  "GPU architecture of --show kernels; default COCONET_ARCH, or sm_90")
      ->type_name("ARCH");

  CompileOptions compile_options;
  CLI::App& compile_command =
      *app.add_subcommand("compile", "Fill the cache with a program's kernels");
  compile_command.footer(compile_examples);
  add_subject(compile_command, compile_options.subject, raw);
  add_ranks(compile_command, compile_options.ranks);
  compile_command
      .add_option("--arch", compile_options.archs,
                  "host, or a GPU architecture such as sm_90; may be repeated; default "
                  "COCONET_ARCH, or host")
      ->type_name("ARCH")
      ->allow_extra_args(false);

  ProgramsOptions programs_options;
  CLI::App& programs_command = *app.add_subcommand("programs", "List the programs that ship");
  programs_command.add_flag("--schedules", programs_options.schedules,
                            "List PROGRAM SCHEDULE pairs, one a line");

  CLI::App& doctor_command =
      *app.add_subcommand("doctor", "Say what is here, what is missing, and what that turns off");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return launch().rank == 0 ? app.exit(asked) : exit_ok;
  } catch (const CLI::ParseError& error) {
    const auto chosen = app.get_subcommands();
    if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
      const std::string near =
          ir::nearest(argv[1], {"run", "explain", "compile", "programs", "doctor"});
      return fail_alike("There is no subcommand '" + std::string(argv[1]) + "'; " +
                            (near.empty() ? "see coconet --help" : "did you mean '" + near + "'?"),
                        exit_usage);
    }
    const std::string name = chosen.empty() ? "coconet" : "coconet " + chosen.front()->get_name();
    return fail_alike(std::string(error.what()) + " (see " + name + " --help)", exit_usage);
  }

  if (run_command) {
    read_subject(raw, run_options.subject);
    for (const std::string& text : raw.scalars) run_options.scalars.insert(parse_scalar(text));
    for (const std::string& text : raw.lists) {
      const auto [name, lengths] = parse_list(text);
      if (!run_options.lists.emplace(name, lengths).second)
        throw UsageError("--list gives the dimension '" + name + "' twice.");
    }
    return run(run_options);
  }
  if (explain_command) {
    read_subject(raw, explain_options.subject);
    return explain(explain_options);
  }
  if (compile_command) {
    read_subject(raw, compile_options.subject);
    return compile(compile_options);
  }
  if (programs_command) return programs(programs_options);
  if (doctor_command) return doctor();
  return exit_usage;
}

}  // namespace
}  // namespace coconet::cli

int main(int argc, char** argv) {
  using namespace coconet::cli;
  try {
    return command(argc, argv);
  } catch (const UsageError& error) {
    return fail_alike(error.what(), exit_usage);
  } catch (const std::exception& error) {
    return fail_alike(error.what(), exit_failure);
  }
}
