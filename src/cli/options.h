// The options of the subcommands: what CLI11 is told of them, and how their texts are understood.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/commands.h"

namespace CLI {
class App;
}

namespace coconet::cli {

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

/// A subcommand without options, and what its --help ends with.
CLI::App& add_command(CLI::App& parent, const char* name, const char* what, const char* examples);

/// The program and its schedule.
void add_spec(CLI::App& command, ProgramSpec& spec, Raw& raw);
void read_spec(const Raw& raw, ProgramSpec& spec);
void read_lists(const Raw& raw, ParameterLists& lists);

void add_ranks(CLI::App& command, std::optional<int>& ranks);
void add_targets(CLI::App& command, CompileOptions& options);
void add_prune(CLI::App& command, CachePruneOptions& options, Raw& raw);
void read_prune(const Raw& raw, CachePruneOptions& options);

/// The subcommands with a program or many options. Their texts are read by `read_spec`, or
/// `read_run`, once they are parsed.
CLI::App& add_run(CLI::App& app, RunOptions& options, Raw& raw);
void read_run(const Raw& raw, RunOptions& options);
CLI::App& add_explain(CLI::App& app, ExplainOptions& options, Raw& raw);
CLI::App& add_legal(CLI::App& app, LegalOptions& options, Raw& raw);
CLI::App& add_compile(CLI::App& app, CompileOptions& options, Raw& raw);
CLI::App& add_sim(CLI::App& app, SimOptions& options, Raw& raw);
CLI::App& add_tune(CLI::App& app, TuneOptions& options, Raw& raw);
CLI::App& add_calibrate(CLI::App& app, std::string& out);

}  // namespace coconet::cli
