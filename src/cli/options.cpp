// The options of the subcommands, in the order of their --help.
#include "cli/options.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/help.h"
#include "cli/program_spec.h"

namespace coconet::cli {
namespace {

/// NAME=VALUE options may be repeated, each taking one value, so that a PROGRAM may follow them.
CLI::Option* repeated(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                      const std::string& help) {
  return command.add_option(name, values, help)->type_name("NAME=VALUE")->allow_extra_args(false);
}

/// Of programs that ship.
void add_training(CLI::App& command, ProgramSpec& spec) {
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
          "An optimizer in mixed precision, and what it keeps of its f32 weights beside those of "
          "--dtype f16 or bf16: a copy, or with bf16 remainders, or none")
      ->type_name("KEPT");
  command.add_flag("--groups", spec.training.groups,
                   "An optimizer with a learning rate and a weight decay for each buffer");
  command.add_flag("--accumulation", spec.training.accumulation,
                   "An optimizer that takes each rank's sum of the gradients of micro-batches");
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

void add_data(CLI::App& command, RunOptions& options, Raw& raw) {
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
}

void add_checkpoints(CLI::App& command, RunOptions& options) {
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

}  // namespace

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
  add_training(command, spec);
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
  add_data(command, options, raw);
  add_checkpoints(command, options);
  return command;
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

}  // namespace coconet::cli
