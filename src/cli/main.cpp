// The `coconet` command: reads the command line and calls the subcommand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/launch.h"
#include "cli/program_spec.h"
#include "ir/graph.h"
#include "jit/comm/comm.h"
#include "jit/config/build_info.h"
#include "jit/config/parse.h"

namespace coconet::cli {
namespace {

constexpr const char* overview_examples = R"(Examples:
  coconet doctor                                       what this machine offers
  coconet programs                                     what ships
  coconet explain adam --schedule fused                what a schedule does to a program
  coconet compile adam --schedule fused --arch sm_90   fill the cache, also for other machines
  coconet sim adam --cluster dgx2                      predict times on a cluster that is not here
  mpirun -n 2 coconet tune adam --out best.json        measure all schedules, keep the quickest
  coconet cache stats                                  how many kernels are kept, and where
  mpirun -n 2 coconet run adam --schedule fused --check
`coconet COMMAND --help` tells more. Exit codes: 0 success, 1 failure, 2 wrong command line.)";

constexpr const char* run_examples = R"(Examples:
  mpirun -n 2 coconet run adam --schedule fused --set n=2^24
  mpirun -n 4 coconet run adamw --schedule sliced --dtype bf16 --hyper beta2=0.95 --check
  coconet run adam --schedule fused --world local:3 --check --json result.json
  mpirun -n 2 coconet run lamb --scattered --list n=768,1,4099,2^20 --schedule fused --check
  mpirun -n 8 coconet run program.json --schedule schedule.json --scalar lr=1e-3
  mpirun -n 2 coconet run mlp_block --schedule overlapped --trace trace.json
  mpirun -n 2 coconet run step.json --input g=g%r.npy --input w=w.npy --output w=new.npy
  mpirun -n 2 coconet run adam --schedule fused --state-dict states    exp_avg.npy and so on, for Python
  mpirun -n 4 coconet run adam --iters 1000 --save saved --save-every 100 --keep 3 --resume saved \
    --may-be-first-start

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
  coconet explain adam --schedule fused --show svg > adam.svg
Lines that begin with + or - were added or removed by the step.)";

constexpr const char* sim_examples = R"(Examples:
  coconet sim adam --cluster dgx2 --sizes 2^10..2^30          every schedule that ships, and the best there is
  coconet sim adam --cluster dgx2-x16 --nodes 16              on 16 such nodes
  coconet sim lamb --cluster dgx-h100 --schedule fused        each step, and what binds it
  coconet sim mlp_block --cluster cluster.json --sizes S=128..1024 --set B=16
NAME-xN takes N nodes of a cluster that ships: host-2rank, dgx1v, dgx2, dgx-a100, dgx-h100. docs/model.md says what is
predicted, and how.)";

constexpr const char* tune_examples = R"(Examples:
  mpirun -n 2 coconet tune adam --sizes 2^10..2^24 --out best.json
  mpirun -n 2 coconet tune mlp_block --set B=8 --set S=512 --out best.json
  mpirun -n 2 coconet tune step.json --slice m --slice v --sizes n=2^20
Every size is measured. --out gets the schedule of the last one. A state that --slice names may be kept sliced over the
ranks; of a program that ships these are those that its schedules keep so. Ctrl-C keeps the best so far, or what is measured
of the machine.)";

constexpr const char* calibrate_examples = R"(Examples:
  mpirun -n 2 coconet calibrate
  mpirun -n 2 coconet calibrate --out this.json; coconet sim adam --cluster this.json
Times small programs for some seconds and keeps what it found in COCONET_TUNE_FILE, where `coconet tune` takes it from.
Nothing else should run meanwhile. Ctrl-C keeps what is measured so far, and the next time goes on from there.)";

constexpr const char* legal_examples = R"(Examples:
  coconet legal adam                                   what a schedule may begin with
  coconet legal adam --schedule sliced                 what may follow its steps
A step a line, with its arguments. Of those that end in a list only the useful and the largest are listed; the line below
says what else the list may hold: of a reorder any of the names, of a fuse any that keep the rules of kernels. Without
such a line it may hold fewer of its own.)";

constexpr const char* cache_examples = R"(Examples:
  coconet cache list                                       what is there, used last first
  coconet cache stats                                      how much, and the limits
  coconet cache explain adam --schedule fused --arch sm_90 --ranks 8   which kernels are there, and why others are not
  coconet cache verify                                     reads and checks every entry; removes nothing
  coconet cache prune --max-size 100M                      down to 100 MiB, the least recently used first
  COCONET_CACHE_DIR=/tmp/kernels coconet cache clear       removes all kernels
The directories are COCONET_CACHE_DIR, which is written, and those of COCONET_CACHE_PATH, which are only read.
`coconet cache COMMAND --help` tells more.)";

constexpr const char* cache_list_examples = R"(Examples:
  coconet cache list
  coconet cache list --json | jq '.directories[].entries[] | select(.arch == "sm_90")'
An entry counts as used when a process found it, at most once a day.)";

constexpr const char* cache_verify_examples = R"(Example:
  coconet cache verify || coconet cache clear
Every entry of every directory is read: its lengths, its checksum, whether its name is the digest of its key, and whether
it is a regular file that nobody else may have written. Nothing is removed. A bad entry is exit code 1.)";

constexpr const char* cache_explain_examples = R"(Examples:
  coconet cache explain adam --schedule fused
  coconet cache explain adam --schedule fused --arch sm_90 --ranks 8
  COCONET_CACHE_PATH=/site/kernels coconet cache explain adam --schedule fused --arch sm_90 --ranks 8
For each kernel: the file that it is in; or the entry that is most like it, the first field of the key that differs, and
how. The fields are kind, format, target, entry, arch, compiler, options, abi, prelude and source.)";

constexpr const char* cache_prune_examples = R"(Examples:
  coconet cache prune                      to the limits of COCONET_CACHE_MAX_SIZE and COCONET_CACHE_MAX_FILES
  coconet cache prune --max-size 100M
  coconet cache prune --max-files 1000
What was used the longest ago goes first, until a fifth of each limit that was exceeded is free; temporary files go that
are older than an hour. Processes that use the cache may go on.)";

constexpr const char* cache_stats_examples = R"(Example:
  coconet cache stats)";

constexpr const char* cache_clear_examples = R"(Example:
  coconet cache clear
All entries go, of every format, and all temporary files: a process that is just storing a kernel goes on without the
cache. Other files stay, and symbolic links are not followed.)";

/// The text of an option as CLI11 got it, before it is understood.
struct Raw {
  std::vector<std::string> sizes;
  std::vector<std::string> scalars;
  std::vector<std::string> hyperparameters;
  std::vector<std::string> lists;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::string dtype;
  std::string max_size;
};

/// NAME=VALUE options may be repeated, each taking one value, so that a PROGRAM may follow them.
CLI::Option* repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->type_name("NAME=VALUE")->allow_extra_args(false);
}

CLI::App& add_command(CLI::App& parent, const char* name, const char* what, const char* examples) {
  CLI::App& command = *parent.add_subcommand(name, what);
  command.footer(examples);
  return command;
}

void add_spec(CLI::App& command, ProgramSpec& spec, Raw& raw) {
  command
      .add_option("PROGRAM", spec.program,
                  "A program that ships (see `coconet programs`), or a JSON file")
      ->required()
      ->type_name("");
  command
      .add_option("--schedule", spec.schedule,
                  "A schedule that ships with PROGRAM (`coconet programs` lists them), a JSON "
                  "file, or auto: "
                  "what `coconet tune` found; default: none")
      ->type_name("NAME|FILE");
  repeated(command, "--set", raw.sizes,
           "Extent of a dimension, such as n=4099 or n=2^20; may be repeated");
  command
      .add_option(
          "--nodes", spec.nodes,
          "A program that ships, on the mesh {node: K, gpu: ranks / K}, with schedules for it")
      ->type_name("K")
      ->check(CLI::Range(1, 65536));
  command.add_flag("--scattered", spec.scattered,
                   "A program that ships, with its parameters over a list of buffers");
  repeated(command, "--hyper", raw.hyperparameters,
           "Hyperparameter of an optimizer, such as beta2=0.95 (`coconet programs --hyper` lists "
           "them); may be repeated");
  command
      .add_option("--max-norm", spec.training.max_norm,
                  "An optimizer that clips the gradient to this norm")
      ->type_name("X");
  command
      .add_option("--max-value", spec.training.max_value,
                  "An optimizer that clips each element of the gradient")
      ->type_name("X");
  command.add_flag("--gradient-norm", spec.training.gradient_norm,
                   "An optimizer with the norm of the gradient, before clipping, as an output");
  CLI::Option* const scaling =
      command.add_flag("--loss-scaling", spec.training.loss_scaling,
                       "An optimizer that takes gradients of a scaled loss, and skips steps that "
                       "overflow");
  command
      .add_option("--growth-interval", spec.training.loss_scale.growth_interval,
                  "With --loss-scaling: steps without overflow before the scale doubles; default "
                  "2000")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 24))
      ->needs(scaling);
  command
      .add_option_function<std::string>(
          "--master-weights",
          [&spec](const std::string& kept) { spec.master_weights = parse_master_weights(kept); },
          "What an optimizer in mixed precision keeps of its f32 weights beside those in bf16: a "
          "copy (default), remainders, or none")
      ->type_name("KEPT");
  command.add_flag("--groups", spec.training.groups,
                   "An optimizer with a learning rate and a weight decay for each buffer");
  command.add_flag("--accumulation", spec.training.accumulation,
                   "An optimizer that takes each rank's sum of the gradients of micro-batches");
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

void add_targets(CLI::App& command, CompileOptions& options) {
  command
      .add_option("--arch", options.archs,
                  "host, or a GPU architecture such as sm_90; may be repeated; default "
                  "COCONET_ARCH, or host")
      ->type_name("ARCH")
      ->allow_extra_args(false);
  command.add_flag("--share-gpu", options.share_gpu,
                   "For ranks that are threads of one process and share a GPU");
}

void read_spec(const Raw& raw, ProgramSpec& spec) {
  if (!raw.dtype.empty()) {
    spec.dtype = parse_dtype(raw.dtype);
    if (!spec.dtype || !is_float(*spec.dtype)) {
      throw UsageError("--dtype is f32, f64, f16 or bf16, not '" + raw.dtype + "'.");
    }
  }
  for (const std::string& text : raw.sizes) {
    const auto [name, extent] = parse_size(text);
    if (!spec.sizes.emplace(name, extent).second) {
      throw UsageError("--set gives the dimension '" + name + "' twice.");
    }
  }
  for (const std::string& text : raw.hyperparameters) {
    const auto [name, value] = parse_number("--hyper", text);
    if (!spec.hyperparameters.emplace(name, value).second)
      throw UsageError("--hyper gives '" + name + "' twice.");
  }
}

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

CLI::App& add_run(CLI::App& app, RunOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "run", "Run a program on the ranks of mpirun, time it, check it", run_examples);
  add_spec(command, options.spec, raw);
  command.add_option("--iters", options.iterations, "Steps to time; default 20, with --check 3")
      ->type_name("K")
      ->check(CLI::Range(1, 1'000'000'000));
  command.add_option("--warmup", options.warmup, "Steps before those; default 3, with --check 0")
      ->type_name("W")
      ->check(CLI::Range(0, 1'000'000'000));
  command.add_flag("--check", options.check,
                   "Compare with the reference, and the ranks with each other");
  command.add_option("--json", options.json, "Write the result to FILE")->type_name("FILE");
  command
      .add_option("--trace", options.trace,
                  "Write when every kernel of the first 64 steps began and ended, on all ranks, to "
                  "FILE, for https://ui.perfetto.dev or chrome://tracing")
      ->type_name("FILE");
  command
      .add_option("--world", options.world,
                  "mpi; self: one rank; local:N: N threads of this process. Default: mpi under "
                  "mpirun, else self")
      ->type_name("WORLD");
  repeated(command, "--scalar", raw.scalars,
           "Value of a run-time scalar; default lr=0.01, t=the step number, others 0.5; may be "
           "repeated");
  repeated(command, "--list", raw.lists,
           "Lengths of the buffers of a dimension, such as n=768,1,2^20; may be repeated; default: "
           "uneven ones");
  repeated(command, "--input", raw.inputs,
           "A .npy file for an input or a state; with %r in its name, the rank's number, a file of "
           "each rank's part; may be repeated. One step is run, and states without a file begin "
           "with zeros");
  repeated(command, "--output", raw.outputs,
           "A .npy file that a state or an output is written to at the end, likewise");
  command
      .add_option("--state-dict", options.state_dict,
                  "A directory that the states of an optimizer that ships are written to at the "
                  "end, whole, as .npy files with the names of torch.optim: exp_avg.npy")
      ->type_name("DIR");
  CLI::Option* const save =
      command
          .add_option("--save", options.save,
                      "Save the states after the last step as the checkpoint DIR/step-T, T the "
                      "number of steps taken, which any number of ranks and any schedule can load")
          ->type_name("DIR");
  command.add_option("--save-every", options.save_every, "And after every N-th step")
      ->type_name("N")
      ->check(CLI::Range(1, 1'000'000'000))
      ->needs(save);
  command
      .add_option("--keep", options.keep,
                  "Remove all checkpoints of the program but the newest K; default: all stay")
      ->type_name("K")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(save);
  CLI::Option* const resume =
      command
          .add_option("--resume", options.resume,
                      "Go on from the checkpoint DIR, or from the newest one in DIR that is whole: "
                      "with its states, and t counting on, for as many steps more. Where DIR has "
                      "none, begin anew, with a warning")
          ->type_name("DIR");
  command
      .add_flag("--may-be-first-start", options.may_be_first_start,
                "Begin anew where the DIR of --resume is missing, too, instead of failing")
      ->needs(resume);
  return command;
}

CLI::App& add_explain(CLI::App& app, ExplainOptions& options, Raw& raw) {
  CLI::App& command =
      add_command(app, "explain", "Show what a schedule makes of a program", explain_examples);
  add_spec(command, options.spec, raw);
  add_ranks(command, options.ranks);
  command
      .add_option(
          "--show", options.show,
          "ir (default): the program after each step; plan; source; kernels: what they take of a "
          "GPU; dot: a picture as Graphviz text; svg: that picture, which takes Graphviz")
      ->type_name("WHAT")
      ->check(CLI::IsMember({"ir", "plan", "source", "kernels", "dot", "svg"}));
  command
      .add_option("--arch", options.arch,
                  "GPU architecture of --show kernels; default COCONET_ARCH, or sm_90")
      ->type_name("ARCH");
  command
      .add_option("--cluster", options.cluster,
                  "What --show plan predicts times for: a cluster that ships, or a JSON file; "
                  "default: this machine as `coconet calibrate` found it, else host-2rank")
      ->type_name("NAME|FILE");
  return command;
}

CLI::App& add_legal(CLI::App& app, LegalOptions& options, Raw& raw) {
  CLI::App& command =
      add_command(app, "legal", "List the steps that a schedule may take next", legal_examples);
  add_spec(command, options.spec, raw);
  add_ranks(command, options.ranks);
  return command;
}

CLI::App& add_compile(CLI::App& app, CompileOptions& options, Raw& raw) {
  CLI::App& command =
      add_command(app, "compile", "Fill the cache with a program's kernels", compile_examples);
  add_spec(command, options.spec, raw);
  add_ranks(command, options.ranks);
  add_targets(command, options);
  return command;
}

void add_sizes(CLI::App& command, std::vector<std::string>& sizes) {
  command
      .add_option(
          "--sizes", sizes,
          "Extents of a dimension: 2^10..2^26, which doubles, or 1000,4000; S=128..1024 where "
          "there are several dimensions")
      ->type_name("[NAME=]SIZES")
      ->allow_extra_args(false);
}

CLI::App& add_sim(CLI::App& app, SimOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "sim", "Predict how long a program takes on a cluster, at hand or not", sim_examples);
  add_spec(command, options.spec, raw);
  command.add_option("--cluster", options.cluster, "A cluster that ships, or a JSON file")
      ->required()
      ->type_name("NAME|FILE");
  add_sizes(command, options.sizes);
  return command;
}

CLI::App& add_tune(CLI::App& app, TuneOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "tune", "Measure a program's schedules and write the quickest", tune_examples);
  add_spec(command, options.spec, raw);
  add_sizes(command, options.sizes);
  command
      .add_option(
          "--slice", options.sliceable,
          "A state that may be kept sliced, because nothing needs it whole; may be repeated")
      ->type_name("STATE")
      ->allow_extra_args(false);
  command.add_option("--out", options.out, "Write the schedule to FILE")->type_name("FILE");
  command
      .add_option("--report", options.report,
                  "Write a page with charts, the search and the winner's picture to FILE")
      ->type_name("FILE.html");
  command.add_option("--json", options.json, "Write all that was measured to FILE")
      ->type_name("FILE");
  command
      .add_option(
          "--cluster", options.cluster,
          "What predictions are for: a cluster that ships, or a JSON file; default: this machine, "
          "which is measured where it was not yet")
      ->type_name("NAME|FILE");
  command.add_flag(
      "--exhaustive", options.exhaustive,
      "Measure all candidates, also those that are predicted to be slow, and say how near to the "
      "best of them the choice is");
  return command;
}

CLI::App& add_calibrate(CLI::App& app, CalibrateOptions& options) {
  CLI::App& command =
      add_command(app, "calibrate", "Measure this machine, for predictions", calibrate_examples);
  command.add_option("--out", options.out, "Write the cluster to FILE")->type_name("FILE");
  return command;
}

std::map<std::string, std::string> files_by_tensor(const char* option,
                                                   const std::vector<std::string>& texts) {
  std::map<std::string, std::string> files;
  for (const std::string& text : texts) {
    const std::size_t at = text.find('=');
    if (at == 0 || at == std::string::npos || at + 1 == text.size())
      throw UsageError(fmt::format("{} takes NAME=FILE, not '{}'.", option, text));
    if (!files.emplace(text.substr(0, at), text.substr(at + 1)).second)
      throw UsageError(fmt::format("{} gives '{}' twice.", option, text.substr(0, at)));
  }
  return files;
}

void read_run(const Raw& raw, RunOptions& options) {
  options.inputs = files_by_tensor("--input", raw.inputs);
  options.outputs = files_by_tensor("--output", raw.outputs);
  read_spec(raw, options.spec);
  for (const std::string& text : raw.scalars) {
    const auto [name, value] = parse_number("--scalar", text);
    if (!options.scalars.emplace(name, value).second)
      throw UsageError("--scalar gives '" + name + "' twice.");
  }
  for (const std::string& text : raw.lists) {
    const auto [name, lengths] = parse_list(text);
    if (!options.lists.emplace(name, lengths).second)
      throw UsageError("--list gives the dimension '" + name + "' twice.");
  }
}

int command(int argc, char** argv) {
  CLI::App app(
      "coconet: distributed steps whose computation and communication are compiled together");
  app.set_version_flag("--version", fmt::format("coconet {}", jit::build_info::version));
  app.footer(overview_examples);
  app.require_subcommand(1);

  Raw raw;
  RunOptions run_options;
  ExplainOptions explain_options;
  LegalOptions legal_options;
  CompileOptions compile_options;
  SimOptions sim_options;
  TuneOptions tune_options;
  CalibrateOptions calibrate_options;
  ProgramsOptions programs_options;
  const CLI::App& run_command = add_run(app, run_options, raw);
  const CLI::App& explain_command = add_explain(app, explain_options, raw);
  const CLI::App& legal_command = add_legal(app, legal_options, raw);
  const CLI::App& compile_command = add_compile(app, compile_options, raw);
  const CLI::App& sim_command = add_sim(app, sim_options, raw);
  const CLI::App& tune_command = add_tune(app, tune_options, raw);
  const CLI::App& calibrate_command = add_calibrate(app, calibrate_options);
  Cache cache(app, raw);
  CLI::App& programs_command = *app.add_subcommand("programs", "List the programs that ship");
  programs_command.add_flag("--schedules", programs_options.schedules,
                            "List PROGRAM SCHEDULE pairs, one a line");
  programs_command.add_flag("--hyper", programs_options.hyperparameters,
                            "The hyperparameters of optimizers instead, with their defaults");
  const CLI::App& doctor_command =
      *app.add_subcommand("doctor", "Say what is here, what is missing, and what that turns off");

  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& asked) {  // --help and --version
    return launch().rank == 0 ? app.exit(asked) : exit_ok;
  } catch (const CLI::ParseError& error) {
    return complain_of(app, error, argc, argv);
  }

  if (run_command) {
    read_run(raw, run_options);
    return run(run_options);
  }
  if (explain_command) {
    read_spec(raw, explain_options.spec);
    return explain(explain_options);
  }
  if (legal_command) {
    read_spec(raw, legal_options.spec);
    return legal(legal_options);
  }
  if (compile_command) {
    read_spec(raw, compile_options.spec);
    return compile(compile_options);
  }
  if (sim_command) {
    read_spec(raw, sim_options.spec);
    return sim(sim_options);
  }
  if (tune_command) {
    read_spec(raw, tune_options.spec);
    return tune(tune_options);
  }
  if (calibrate_command) return calibrate(calibrate_options);
  if (cache.command) return cache.run(raw);
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
  } catch (...) {
    return fail_alike(coconet::jit::message_of(std::current_exception()), exit_failure);
  }
}
