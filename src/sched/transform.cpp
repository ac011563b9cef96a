// The table of transformations, and the checks of a step against its schema.
#include "sched/transform.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <span>

#include "coconet/error.h"
#include "sched/interface.h"
#include "sched/kernels.h"
#include "sched/overlaps.h"
#include "sched/patterns.h"
#include "sched/refusal.h"

namespace coconet::sched {

namespace {

constexpr const Transformation* table[] = {
#define COCONET_TRANSFORMATION(name) &name##_transformation,
#include "sched/transforms.def"
#undef COCONET_TRANSFORMATION
};

std::string_view kind_name(Parameter::Kind kind) {
  constexpr std::string_view names[] = {"a string", "a list of strings", "a whole number"};
  return names[static_cast<std::size_t>(kind)];
}

void check_choice(const Step& step, const Parameter& parameter, const Argument& argument) {
  if (parameter.choices.empty()) return;
  const std::string& text = std::get<std::string>(argument);
  if (std::ranges::find(parameter.choices, text) != parameter.choices.end()) return;
  std::vector<std::string> accepted;
  for (const std::string_view choice : parameter.choices) {
    if (!choice.empty()) accepted.push_back(fmt::format("'{}'", choice));
  }
  throw ScheduleError(fmt::format("{}: '{}' is '{}'; it takes {}", step.transformation,
                                  parameter.name, text, fmt::join(accepted, ", ")));
}

/// The program after all of `steps` by one rewrite; nothing where they do not go so.
std::optional<ir::Graph> transform_at_once(const ir::Graph& graph, std::span<const Step> steps) {
  const auto apply_all = find_transformation(steps.front().transformation)->apply_all;
  if (apply_all == nullptr || steps.size() == 1) return std::nullopt;
  try {
    ir::Graph after = apply_all(graph, steps);
    require_same_interface(graph, after, steps);
    return after;
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const ProgramError&) {
    return std::nullopt;
  }
}

/// The program after `step`, of whose single steps `call` does each: `call(graph, step, apply)`.
template <class Call>
ir::Graph transform_by(const ir::Graph& graph, const Step& step, const Call& call) {
  const Step completed = complete(step);
  const auto apply = find_transformation(completed.transformation)->apply;
  const std::vector<Step> steps = expand(graph, completed);
  if (steps.empty()) return graph;
  std::optional<ir::Graph> now = transform_at_once(graph, steps);
  if (!now) {
    for (const Step& next : steps) {
      const ir::Graph& before = now ? *now : graph;
      ir::Graph after = call(before, next, apply);
      require_same_interface(before, after, {&next, 1});
      now = std::move(after);
    }
  }
  check_kernels(*now);
  check_overlaps(*now);
  return *std::move(now);
}

std::string join(const std::vector<std::string>& words) {
  return fmt::format("[{}]", fmt::join(words, ", "));
}

/// The values called as what a split makes of the all_reduce `name`, in order.
std::vector<ir::ValueId> pieces_of(const ir::Graph& graph, std::string_view name) {
  std::vector<ir::ValueId> pieces;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    if (ir::is_collective(node.op) && node.name == fmt::format("{}.{}", name, to_string(node.op)))
      pieces.push_back(id);
  }
  return pieces;
}

/// Throws when a split replaced `name`, or all that read the all_gather `name` was reordered.
void refuse_replaced(const ir::Graph& graph, std::string_view name) {
  const std::vector<ir::ValueId> pieces = pieces_of(graph, name);
  std::vector<std::string> words;
  for (const ir::ValueId id : pieces) words.push_back("'" + graph.at(id).name + "'");
  if (!pieces.empty()) {
    const ir::Op last = graph.at(pieces.back()).op;
    const bool is_whole = last == ir::Op::all_gather || last == ir::Op::broadcast;
    throw ScheduleError(
        fmt::format("program '{}' has no value '{}' any more: a split made {} of it{}", graph.name,
                    name, fmt::join(words, " and "),
                    is_whole ? fmt::format("; name {} for what '{}' was", words.back(), name)
                             : fmt::format(", and what read '{}' reads that", name)));
  }
  constexpr std::string_view suffix = ".all_gather";
  if (!name.ends_with(suffix)) return;
  const std::string slice =
      std::string(name.substr(0, name.size() - suffix.size())) + ".reduce_scatter";
  if (graph.find(slice) < 0) return;
  for (const ir::Node& node : graph.nodes()) {
    if (node.op == ir::Op::all_gather) words.push_back("'" + node.name + "'");
  }
  throw ScheduleError(fmt::format(
      "program '{}' has no value '{}' any more: all that read it was reordered, and reads '{}'; {}",
      graph.name, name, slice,
      words.empty() ? "name that" : fmt::format("gathered is {}", fmt::join(words, ", "))));
}

}  // namespace

const std::string& Step::text(std::string_view name) const {
  return std::get<std::string>(arguments.find(name)->second);
}
const std::vector<std::string>& Step::list(std::string_view name) const {
  return std::get<std::vector<std::string>>(arguments.find(name)->second);
}
std::int64_t Step::integer(std::string_view name) const {
  return std::get<std::int64_t>(arguments.find(name)->second);
}

std::span<const Transformation* const> transformations() {
  return table;
}

const Transformation* find_transformation(std::string_view name) {
  const auto found = std::ranges::find(table, name, &Transformation::name);
  return found == std::end(table) ? nullptr : *found;
}

Argument fallback_of(const Parameter& parameter) {
  const std::string_view text = parameter.fallback;
  if (parameter.kind == Parameter::Kind::text) return std::string(text);
  if (parameter.kind == Parameter::Kind::list) return std::vector<std::string>{};
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

ir::Graph transform(const ir::Graph& graph, const Step& step) {
  return transform_by(graph, step, [](const ir::Graph& before, const Step& one, const auto& apply) {
    try {
      return apply(before, one);
    } catch (const Refusal& refusal) {
      throw ScheduleError(advised(before, one, refusal));
    }
  });
}

std::string legal(const ir::Graph& graph, const Step& step) {
  try {
    (void)transform(graph, step);
    return {};
  } catch (const ScheduleError& error) {
    return error.what();
  } catch (const ProgramError& error) {
    return error.what();
  }
}

std::optional<ir::Graph> try_transform(const ir::Graph& graph, const Step& step) {
  try {
    return transform_by(graph, step,
                        [](const ir::Graph& before, const Step& one, const auto& apply) {
                          return apply(before, one);
                        });
  } catch (const ScheduleError&) {
    return std::nullopt;
  } catch (const ProgramError&) {
    return std::nullopt;
  }
}

bool is_legal(const ir::Graph& graph, const Step& step) {
  return try_transform(graph, step).has_value();
}

std::vector<Step> candidate_steps(const ir::Graph& graph) {
  std::vector<Step> all;
  for (const Transformation* transformation : transformations())
    std::ranges::move(transformation->candidates(graph), std::back_inserter(all));
  return all;
}

Step complete(Step step) {
  const Transformation* transformation = find_transformation(step.transformation);
  if (transformation == nullptr) {
    std::vector<std::string> known;
    for (const Transformation* row : table) known.emplace_back(row->name);
    throw ScheduleError("there is no transformation '" + step.transformation + "'" +
                        ir::suggestion(step.transformation, known, "; known are " + join(known)));
  }
  std::vector<std::string> known;
  for (const Parameter& parameter : transformation->parameters) known.emplace_back(parameter.name);
  for (const auto& [name, argument] : step.arguments) {
    if (std::ranges::find(known, name) == known.end()) {
      throw ScheduleError(step.transformation + " has no parameter '" + name + "'; it takes " +
                          join(known));
    }
  }
  for (const Parameter& parameter : transformation->parameters) {
    const auto found = step.arguments.find(parameter.name);
    if (found == step.arguments.end()) {
      if (parameter.required) {
        throw ScheduleError(fmt::format("{} needs '{}': {}", step.transformation, parameter.name,
                                        parameter.summary));
      }
      step.arguments.emplace(parameter.name, fallback_of(parameter));
      continue;
    }
    if (found->second.index() != static_cast<std::size_t>(parameter.kind)) {
      throw ScheduleError(fmt::format("{}: '{}' must be {}: {}", step.transformation,
                                      parameter.name, kind_name(parameter.kind),
                                      parameter.summary));
    }
    check_choice(step, parameter, found->second);
  }
  return step;
}

std::string to_string(const Step& step) {
  std::string text = step.transformation;
  const Transformation* transformation = find_transformation(step.transformation);
  if (transformation == nullptr) return text;
  for (const Parameter& parameter : transformation->parameters) {
    const auto found = step.arguments.find(parameter.name);
    if (found == step.arguments.end()) continue;
    if (!parameter.required && found->second == fallback_of(parameter)) continue;
    text += fmt::format(" {}=", parameter.name);
    if (const auto* word = std::get_if<std::string>(&found->second)) text += *word;
    if (const auto* words = std::get_if<std::vector<std::string>>(&found->second))
      text += join(*words);
    if (const auto* number = std::get_if<std::int64_t>(&found->second))
      text += std::to_string(*number);
  }
  return text;
}

ir::ValueId require_value(const ir::Graph& graph, std::string_view name) {
  if (graph.find(name) < 0) refuse_replaced(graph, name);
  try {
    return graph.require(name);
  } catch (const ProgramError& error) {
    throw ScheduleError(error.what());
  }
}

std::string quoted(const ir::Graph& graph, ir::ValueId id) {
  return fmt::format("'{}' ({})", graph.at(id).name, to_string(graph.at(id).op));
}

void refuse_fused(const ir::Graph& graph, ir::ValueId id, std::string_view instead) {
  const ir::Fusion* const fusion = graph.fusion_of(id);
  if (fusion == nullptr) return;
  throw ScheduleError(
      fmt::format("{} is in kernel '{}' already; {}", quoted(graph, id), fusion->name, instead));
}

}  // namespace coconet::sched
