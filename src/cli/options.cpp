// The options of the subcommands, in the order of their --help.
#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "cli/help.h"
#include "cli/program_spec.h"
#include "jit/config/parse.h"

namespace coconet::cli {
namespace {

/// An option that takes a value, which --help calls `value`.
template <class Target>
CLI::Option* add(CLI::App& command, const char* name, Target& target, const char* value,
                 const char* help) {
  return command.add_option(name, target, help)->type_name(value);
}

/// NAME=VALUE options may be repeated, each taking one value, so that a PROGRAM may follow them.
void repeated(CLI::App& command, const char* name, std::vector<std::string>& values,
              const std::string& help) {
  add(command, name, values, "NAME=VALUE", help.c_str())->allow_extra_args(false);
}

/// Of programs that ship.
void add_training(CLI::App& command, ProgramSpec& spec) {
  add(command, "--max-norm", spec.training.max_norm, "X",
      "An optimizer that clips the gradient to this norm");
  add(command, "--max-value", spec.training.max_value, "X",
      "An optimizer that clips each element of the gradient");
  command.add_flag("--gradient-norm", spec.training.gradient_norm,
                   "An optimizer with the norm of the gradient, before clipping, as an output");
  CLI::Option* const scaling =
      command.add_flag("--loss-scaling", spec.training.loss_scaling,
                       "An optimizer that takes gradients of a scaled loss, and skips steps that "
                       "overflow");
  add(command, "--growth-interval", spec.training.loss_scale.growth_interval, "N",
      "With --loss-scaling: steps without overflow before the scale doubles; default 2000")
      ->check(CLI::Range(1, 1 << 24))
      ->needs(scaling);
  command
      .add_option_function<std::string>(
          "--master-weights",
          [&spec](const std::string& kept) { spec.master_weights = parse_master_weights(kept); },
          "An optimizer in mixed precision, and what it keeps of its f32 weights beside those of "
          "--dtype f16 or bf16: a copy, or with bf16 remainders, or none")
      ->type_name("KEPT");
  command.add_flag("--groups", spec.training.groups,
                   "An optimizer with a learning rate and a weight decay for each buffer");
  command.add_flag("--accumulation", spec.training.accumulation,
                   "An optimizer that takes each rank's sum of the gradients of micro-batches");
}

void add_sizes(CLI::App& command, std::vector<std::string>& sizes) {
  add(command, "--sizes", sizes, "[NAME=]SIZES",
      "Extents of a dimension: 2^10..2^26, which doubles, or 1000,4000; S=128..1024 where "
      "there are several dimensions")
      ->allow_extra_args(false);
}

void add_lists(CLI::App& command, Raw& raw, const std::string& otherwise) {
  repeated(
      command, "--list", raw.lists,
      "Lengths of the buffers of a dimension, such as n=768,1,2^20; may be repeated; default: " +
          otherwise);
}

void add_data(CLI::App& command, RunOptions& options, Raw& raw) {
  repeated(command, "--scalar", raw.scalars,
           "Value of a run-time scalar; default lr=0.01, t=the step number, others 0.5; may be "
           "repeated");
  add_lists(command, raw, "uneven ones");
  repeated(command, "--input", raw.inputs,
           "A .npy file for an input or a state; with %r in its name, the rank's number, a file of "
           "each rank's part; may be repeated. One step is run, and states without a file begin "
           "with zeros");
  repeated(command, "--output", raw.outputs,
           "A .npy file that a state or an output is written to at the end, likewise");
  add(command, "--state-dict", options.state_dict, "DIR",
      "A directory that the states of an optimizer that ships are written to at the "
      "end, whole, as .npy files with the names of torch.optim: exp_avg.npy");
}

void add_checkpoints(CLI::App& command, RunOptions& options) {
  CLI::Option* const save =
      add(command, "--save", options.save, "DIR",
          "Save the states after the last step as the checkpoint DIR/step-T, T the "
          "number of steps taken, which any number of ranks and any schedule can load");
  add(command, "--save-every", options.save_every, "N", "And after every N-th step")
      ->check(CLI::Range(1, 1'000'000'000))
      ->needs(save);
  add(command, "--keep", options.keep, "K",
      "Remove all checkpoints of the program but the newest K; default: all stay")
      ->check(CLI::Range(1, 1'000'000))
      ->needs(save);
  CLI::Option* const resume =
      add(command, "--resume", options.resume, "DIR",
          "Go on from the checkpoint DIR, or from the newest one in DIR that is whole: "
          "with its states, and t counting on, for as many steps more. Where DIR has "
          "none, begin anew, with a warning");
  command
      .add_flag("--may-be-first-start", options.may_be_first_start,
                "Begin anew where the DIR of --resume is missing, too, instead of failing")
      ->needs(resume);
}

/// Reads each of `texts` by `read` into `named`; `gives` begins the sentence about a name that is
/// given twice.
template <class Named, class Read>
void read_each(const std::vector<std::string>& texts, Named& named, const char* gives,
               const Read& read) {
  for (const std::string& text : texts) {
    const auto [entry, is_new] = named.insert(read(text));
    if (!is_new) throw UsageError(fmt::format("{} '{}' twice.", gives, entry->first));
  }
}

}  // namespace

CLI::App& add_command(CLI::App& parent, const char* name, const char* what, const char* examples) {
  CLI::App& command = *parent.add_subcommand(name, what);
  command.footer(examples);
  return command;
}

void add_spec(CLI::App& command, ProgramSpec& spec, Raw& raw) {
  add(command, "PROGRAM", spec.program, "",
      "A program that ships (see `coconet programs`), or a JSON file")
      ->required();
  add(command, "--schedule", spec.schedule, "NAME|FILE",
      "A schedule that ships with PROGRAM (`coconet programs` lists them), a JSON file, or auto: "
      "what `coconet tune` found; default: none");
  repeated(command, "--set", raw.sizes,
           "Extent of a dimension, such as n=4099 or n=2^20; may be repeated");
  add(command, "--nodes", spec.nodes, "K",
      "A program that ships, on the mesh {node: K, gpu: ranks / K}, with schedules for it")
      ->check(CLI::Range(1, 65536));
  add(command, "--layers", spec.layers, "N", "A model that ships, with as many layers; default 2")
      ->check(CLI::Range(1, 10'000));
  command.add_flag("--scattered", spec.scattered,
                   "A program that ships, with its parameters over a list of buffers");
  repeated(command, "--hyper", raw.hyperparameters,
           "Hyperparameter of an optimizer, such as beta2=0.95 (`coconet programs --hyper` lists "
           "them); may be repeated");
  add_training(command, spec);
  add(command, "--dtype", raw.dtype, "DTYPE",
      "Element type of a program that ships: f32 (default), f64, f16 or bf16");
}

void add_ranks(CLI::App& command, std::optional<int>& ranks) {
  add(command, "--ranks", ranks, "R", "Ranks to plan for; default 2, or as a file says")
      ->check(CLI::Range(1, 65536));
}

void add_targets(CLI::App& command, CompileOptions& options) {
  add(command, "--arch", options.archs, "ARCH",
      "host, or a GPU architecture such as sm_90; may be repeated; default COCONET_ARCH, or host")
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
  read_each(raw.sizes, spec.sizes, "--set gives the dimension", parse_size);
  read_each(raw.hyperparameters, spec.hyperparameters, "--hyper gives",
            [](const std::string& text) { return parse_number("--hyper", text); });
}

CLI::App& add_run(CLI::App& app, RunOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "run", "Run a program on the ranks of mpirun, time it, check it", run_examples);
  add_spec(command, options.spec, raw);
  add(command, "--iters", options.iterations, "K", "Steps to time; default 20, with --check 3")
      ->check(CLI::Range(1, 1'000'000'000));
  add(command, "--warmup", options.warmup, "W", "Steps before those; default 3, with --check 0")
      ->check(CLI::Range(0, 1'000'000'000));
  command.add_flag("--check", options.check,
                   "Compare with the reference, and the ranks with each other");
  add(command, "--json", options.json, "FILE", "Write the result to FILE");
  add(command, "--trace", options.trace, "FILE",
      "Write when every kernel of the first 64 steps began and ended, on all ranks, to "
      "FILE, for https://ui.perfetto.dev or chrome://tracing");
  add(command, "--world", options.world, "WORLD",
      "mpi; self: one rank; local:N: N threads of this process. Default: mpi under "
      "mpirun, else self");
  add_data(command, options, raw);
  add_checkpoints(command, options);
  return command;
}

void read_run(const Raw& raw, RunOptions& options) {
  read_each(raw.inputs, options.inputs, "--input gives",
            [](const std::string& text) { return assignment("--input", text, "FILE"); });
  read_each(raw.outputs, options.outputs, "--output gives",
            [](const std::string& text) { return assignment("--output", text, "FILE"); });
  read_spec(raw, options.spec);
  read_each(raw.scalars, options.scalars, "--scalar gives",
            [](const std::string& text) { return parse_number("--scalar", text); });
  read_lists(raw, options.lists);
}

void read_lists(const Raw& raw, ParameterLists& lists) {
  read_each(raw.lists, lists, "--list gives the dimension", parse_list);
}

CLI::App& add_explain(CLI::App& app, ExplainOptions& options, Raw& raw) {
  CLI::App& command =
      add_command(app, "explain", "Show what a schedule makes of a program", explain_examples);
  add_spec(command, options.spec, raw);
  add_ranks(command, options.ranks);
  add(command, "--show", options.show, "WHAT",
      "ir (default): the program after each step; plan; source; kernels: what they take of a "
      "GPU; dot: a picture as Graphviz text; svg: that picture, which takes Graphviz")
      ->check(CLI::IsMember({"ir", "plan", "source", "kernels", "dot", "svg"}));
  add(command, "--arch", options.arch, "ARCH",
      "GPU architecture of --show kernels; default COCONET_ARCH, or sm_90");
  add(command, "--cluster", options.cluster, "NAME|FILE",
      "What --show plan predicts times for: a cluster that ships, or a JSON file; "
      "default: this machine as `coconet calibrate` found it, else host-2rank");
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

CLI::App& add_sim(CLI::App& app, SimOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "sim", "Predict how long a program takes on a cluster, at hand or not", sim_examples);
  add_spec(command, options.spec, raw);
  add(command, "--cluster", options.cluster, "NAME|FILE", "A cluster that ships, or a JSON file")
      ->required();
  add_sizes(command, options.sizes);
  return command;
}

CLI::App& add_tune(CLI::App& app, TuneOptions& options, Raw& raw) {
  CLI::App& command = add_command(
      app, "tune", "Measure a program's schedules and write the quickest", tune_examples);
  add_spec(command, options.spec, raw);
  add_sizes(command, options.sizes);
  add_lists(command, raw, "one buffer");
  add(command, "--out", options.out, "FILE", "Write the schedule to FILE");
  add(command, "--report", options.report, "FILE.html",
      "Write a page with charts, the search and the winner's picture to FILE");
  add(command, "--json", options.json, "FILE", "Write all that was measured to FILE");
  add(command, "--cluster", options.cluster, "NAME|FILE",
      "What predictions are for: a cluster that ships, or a JSON file; default: this machine, "
      "which is measured where it was not yet");
  command.add_flag(
      "--exhaustive", options.exhaustive,
      "Measure all candidates, also those that are predicted to be slow, and say how near to the "
      "best of them the choice is");
  return command;
}

void add_prune(CLI::App& command, CachePruneOptions& options, Raw& raw) {
  add(command, "--max-size", raw.max_size, "SIZE",
      "Bytes to keep at most, such as 500M or 2G; 0: any number; default COCONET_CACHE_MAX_SIZE");
  add(command, "--max-files", options.max_files, "N",
      "Entries to keep at most; 0: any number; default COCONET_CACHE_MAX_FILES")
      ->check(CLI::NonNegativeNumber);
}

void read_prune(const Raw& raw, CachePruneOptions& options) {
  if (raw.max_size.empty()) return;
  options.max_size = jit::parse_bytes(raw.max_size);
  if (!options.max_size) {
    throw UsageError("--max-size takes bytes such as 100000, 500M or 2G, not '" + raw.max_size +
                     "'.");
  }
}

CLI::App& add_calibrate(CLI::App& app, std::string& out) {
  CLI::App& command =
      add_command(app, "calibrate", "Measure this machine, for predictions", calibrate_examples);
  add(command, "--out", out, "FILE", "Write the cluster to FILE");
  return command;
}

}  // namespace coconet::cli
