// Finds the program and the schedule that a command line names; see program_spec.h.
#include "cli/program_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <string_view>
#include <system_error>
#include <vector>

#include "ir/access.h"
#include "ir/graph.h"
#include "ir/read_file.h"
#include "sched/patterns.h"
#include "sched/schedule.h"

namespace coconet::cli {
namespace {

std::string joined(const std::vector<std::string>& names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// Whether `name` can only be a file: a path, or called like one.
bool is_file_name(const std::string& name) {
  return name.find('/') != std::string::npos || name.ends_with(".json");
}

bool is_file(const std::string& name) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(name, ignored);
}

/// " Did you mean X?" when a known name is near.
std::string suggestion(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = ir::nearest(name, known);
  return near.empty() ? "" : " Did you mean '" + near + "'?";
}

/// The program of the file `name` where its mesh is left to the number of ranks.
std::optional<ir::OpenProgram> find_open(const std::string& name) {
  const auto text = ir::read_file(name).bytes;  // Program::load says what is wrong with it
  return text ? ir::find_open(*text) : std::nullopt;
}

UsageError no_program(const std::string& name) {
  const std::string stem = name.substr(0, name.rfind("_mixed"));
  if (stem != name && programs::find(stem)) {
    return UsageError("There is no program '" + name + "'; ask for mixed precision by " + stem +
                      " --dtype bf16 --master-weights copy.");
  }
  std::vector<std::string> known;
  for (const auto& shipped : programs::shipped()) known.emplace_back(shipped.name);
  return UsageError("There is no program '" + name + "'; PROGRAM is one of " + joined(known) +
                    ", or a JSON file." + suggestion(name, known));
}

/// The shipped schedule of `program` called `name`, for a mesh of nodes if it is `on_nodes`.
Schedule shipped_schedule(const std::string& program, const std::string& name, bool on_nodes) {
  const programs::Shipped* shipped = programs::find(program);
  if (!shipped) {
    throw UsageError("No schedules ship for the program '" + program +
                     "'; --schedule must be a JSON file, not '" + name + "'.");
  }
  const auto& schedules = on_nodes ? shipped->across_nodes : shipped->schedules;
  std::vector<std::string> known(schedules.begin(), schedules.end());
  if (std::ranges::find(known, name) != known.end())
    return Schedule::load(program + "-" + name + ".json");
  if (known.empty()) {
    throw UsageError("No schedule ships for " + program +
                     "; --schedule must be a JSON file, not '" + name + "'.");
  }
  throw UsageError("There is no schedule '" + name + "' for " + program +
                   (on_nodes ? " on nodes" : "") + "; --schedule is one of " + joined(known) +
                   ", or a JSON file." + suggestion(name, known));
}

template <class T>
bool read_number(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

/// An integer, or BASE^EXPONENT; nothing when it is neither or does not fit.
std::optional<std::int64_t> read_size(std::string_view text) {
  std::int64_t base = 0;
  const auto caret = text.find('^');
  if (!read_number(text.substr(0, caret), base)) return std::nullopt;
  if (caret == std::string_view::npos) return base;
  int exponent = 0;
  if (!read_number(text.substr(caret + 1), exponent) || base < 1 || exponent < 0)
    return std::nullopt;
  std::int64_t value = 1;
  for (int i = 0; i < exponent && base > 1; ++i) {
    if (value > std::numeric_limits<std::int64_t>::max() / base) return std::nullopt;
    value *= base;
  }
  return value;
}

/// Sizes between commas, at least one; nothing when one of them is none.
std::optional<std::vector<std::int64_t>> read_sizes(std::string_view text) {
  std::vector<std::int64_t> sizes;
  for (;;) {
    const auto comma = text.find(',');
    const auto size = read_size(text.substr(0, comma));
    if (!size) return std::nullopt;
    sizes.push_back(*size);
    if (comma == std::string_view::npos) return sizes;
    text.remove_prefix(comma + 1);
  }
}

/// Whether an optimizer has other options than its row of the table.
bool asks_more(const ProgramSpec& spec) {
  const programs::TrainingOptions& training = spec.training;
  return training.max_norm != 0 || training.max_value != 0 || training.gradient_norm ||
         training.loss_scaling || training.groups || training.accumulation ||
         !spec.hyperparameters.empty() || spec.master_weights;
}

UsageError no_optimizer(const std::string& asked) {
  return UsageError(
      "--hyper, --max-norm, --max-value, --gradient-norm, --loss-scaling, --master-weights, "
      "--groups and --accumulation are for the optimizers that ship, not for " +
      asked + ".");
}

}  // namespace

ResolvedSpec::ResolvedSpec(const ProgramSpec& spec)
    : asked_(spec.program),
      shipped_(programs::find(spec.program)),
      scattered_(spec.scattered),
      training_(spec.training),
      hyperparameters_(spec.hyperparameters),
      nodes_(spec.nodes),
      layers_(spec.layers) {
  if (shipped_) {
    if (nodes_ && shipped_->across_nodes.empty())
      throw UsageError("--nodes is for the optimizers that ship, not for " + asked_ + ".");
    if (asks_more(spec) && shipped_->with == nullptr) throw no_optimizer(asked_);
    if (layers_ && shipped_->with_layers == nullptr)
      throw UsageError("--layers is for the models that ship, not for " + asked_ + ".");
    if (scattered_ && shipped_->scattered == nullptr) {
      throw UsageError(
          "--scattered is for the optimizers, whose parameters may lie in a list of "
          "buffers, not for " +
          asked_ + ".");
    }
    precision_ = spec.dtype.value_or(DType::f32);
    if (spec.master_weights) precision_ = programs::mixed(precision_.model, *spec.master_weights);
  } else if (is_file_name(asked_) || is_file(asked_)) {
    open_ = find_open(asked_);
    if (!open_) file_ = Program::load(asked_);
    const auto refuse = [&](const char* option, const char* what_it_says) {
      throw UsageError(fmt::format("{} is for the programs that ship; the file {} {}.", option,
                                   asked_, what_it_says));
    };
    if (spec.dtype) refuse("--dtype", "states the dtype of each of its tensors");
    if (layers_) refuse("--layers", "has the layers that it has");
    if (nodes_) refuse("--nodes", "says what its mesh is");
    if (asks_more(spec)) throw no_optimizer("the file " + asked_);
    if (scattered_) refuse("--scattered", "says which of its tensors are scattered");
  } else {
    throw no_program(asked_);
  }
  if (spec.schedule.empty() || spec.schedule == "none") return;
  schedule_name_ = spec.schedule;
  if (schedule_name_ == "auto") {
    schedule_ = Schedule::automatic();
    return;
  }
  schedule_ = is_file_name(schedule_name_) || is_file(schedule_name_)
                  ? Schedule::load(schedule_name_)
                  : shipped_schedule(shipped_ ? std::string(shipped_->name)
                                     : open_  ? open_->name
                                              : file_->name(),
                                     schedule_name_, nodes_.has_value());
}

std::vector<Schedule> ResolvedSpec::shipped_schedules() const {
  std::vector<Schedule> schedules;
  if (!shipped_) return schedules;
  for (const std::string_view name : nodes_ ? shipped_->across_nodes : shipped_->schedules)
    schedules.push_back(shipped_schedule(std::string(shipped_->name), std::string(name), !!nodes_));
  return schedules;
}

Program ResolvedSpec::program(int ranks) const {
  if (shipped_) {
    const Mesh mesh = nodes_ ? shipped_->mesh_of_nodes(ranks, *nodes_) : shipped_->mesh(ranks);
    if (layers_) return shipped_->with_layers(mesh, precision_, *layers_);
    if (shipped_->with == nullptr) return shipped_->build(mesh, precision_);
    using programs::Storage;
    return shipped_->with(mesh, precision_, training_,
                          scattered_ ? Storage::scattered : Storage::whole, hyperparameters_);
  }
  if (open_) return Program::load(asked_, ranks);
  const Mesh& mesh = file_->mesh();
  if (mesh.size() != ranks) {
    throw UsageError(
        fmt::format("The program {} is written for the mesh {}, which is {}{}, and this world has "
                    "{}. Start it with mpirun -n {}, or with --world local:{}.",
                    asked_, mesh.str(), mesh.size(), (mesh.size() == 1 ? " rank" : " ranks"), ranks,
                    mesh.size(), mesh.size()));
  }
  return *file_;
}

std::optional<int> ResolvedSpec::ranks() const {
  if (shipped_ || open_) return std::nullopt;
  return file_->mesh().size();
}

int ResolvedSpec::ranks_to_plan_for(std::optional<int> asked) const {
  const std::optional<int> fixed = ranks();
  if (fixed && asked && *fixed != *asked) {
    throw UsageError(fmt::format("The program {} is written for {} ranks; leave out --ranks {}.",
                                 asked_, *fixed, *asked));
  }
  const int multiple_of =
      open_ ? open_->multiple_of : nodes_.value_or(shipped_ ? shipped_->stages : 1);
  return fixed ? *fixed : asked.value_or(2 * multiple_of);
}

std::pair<std::string, std::string> assignment(const std::string& option, const std::string& text,
                                               const std::string& value) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size())
    throw UsageError(option + " takes NAME=" + value + ", not '" + text + "'.");
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::pair<std::string, std::vector<std::int64_t>> parse_sizes(const std::string& text) {
  const auto equals = text.find('=');
  const std::string name = equals == std::string::npos ? "" : text.substr(0, equals);
  std::string_view rest = text;
  if (equals != std::string::npos) rest.remove_prefix(equals + 1);
  const auto refuse = [&] {
    throw UsageError(
        "--sizes takes [NAME=]FROM..TO or [NAME=]SIZE,SIZE, such as 2^10..2^26, not '" + text +
        "'.");
  };
  if (const auto dots = rest.find(".."); dots != std::string_view::npos) {
    std::vector<std::int64_t> sizes;
    const auto from = read_size(rest.substr(0, dots)), to = read_size(rest.substr(dots + 2));
    if (!from || !to || *from < 1 || *to < *from) refuse();
    for (std::int64_t size = *from; size <= *to; size *= 2) {
      sizes.push_back(size);
      if (size > *to / 2) break;
    }
    return {name, sizes};
  }
  const auto listed = read_sizes(rest);
  if (!listed || std::ranges::min(*listed) < 1) refuse();
  return {name, *listed};
}

SizesToTry sizes_to_try(const ir::Graph& graph, const std::vector<std::string>& asked) {
  if (asked.empty()) return {"", {0}};
  if (asked.size() > 1) throw UsageError("--sizes is given twice; one dimension can vary.");
  auto [name, extents] = parse_sizes(asked.front());
  std::vector<std::string> known;
  for (const Dim& dim : graph.dims) known.push_back(dim.name);
  const bool is_known = std::ranges::find(known, name) != known.end();
  if (name.empty() && known.size() == 1) return {known.front(), extents};
  if (!is_known) {
    throw UsageError(fmt::format(
        "--sizes: {}; the dimensions of {} are {}.",
        name.empty() ? "name a dimension, as in --sizes " + known.front() + "=2^10..2^20"
                     : "there is no dimension '" + name + "'",
        graph.name, fmt::join(known, ", ")));
  }
  return {name, extents};
}

std::pair<std::string, std::int64_t> parse_size(const std::string& text) {
  auto [name, value] = assignment("--set", text);
  const auto size = read_size(value);
  if (!size) {
    throw UsageError("--set " + name + " takes an integer such as 4099 or 2^20, not '" + value +
                     "'.");
  }
  return {name, *size};
}

std::pair<std::string, std::vector<std::int64_t>> parse_list(const std::string& text) {
  const auto [name, value] = assignment("--list", text);
  const auto lengths = read_sizes(value);
  if (!lengths)
    throw UsageError("--list " + name + " takes lengths such as 768,1,2^20, not '" + value + "'.");
  return {name, *lengths};
}

std::string_view to_string(programs::MasterWeights kept) {
  constexpr std::string_view names[] = {"copy", "remainders", "none"};
  return names[static_cast<std::size_t>(kept)];
}

programs::MasterWeights parse_master_weights(const std::string& text) {
  using programs::MasterWeights;
  for (const auto kept : {MasterWeights::copy, MasterWeights::remainders, MasterWeights::none}) {
    if (text == to_string(kept)) return kept;
  }
  throw UsageError("--master-weights takes copy, remainders or none, not '" + text + "'.");
}

std::pair<std::string, double> parse_number(const std::string& option, const std::string& text) {
  auto [name, value] = assignment(option, text);
  double number = 0;
  if (!read_number(std::string_view(value), number)) {
    throw UsageError(option + " " + name + " takes a number, not '" + value + "'.");
  }
  return {name, number};
}

}  // namespace coconet::cli
