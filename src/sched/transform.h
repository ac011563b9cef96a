// What a transformation is: a named rewrite of a program with a parameter schema. Adding one is a
// row in transforms.def and a file in transforms/.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/graph.h"

namespace coconet::sched {

/// One parameter of a transformation. The schema drives the JSON, its checks and the documentation.
struct Parameter {
  enum class Kind : std::uint8_t { text, list, integer };
  std::string_view name;
  Kind kind = Kind::text;
  bool required = true;
  std::string_view fallback = {};                  ///< used when it is absent and not required
  std::span<const std::string_view> choices = {};  ///< accepted texts; empty: any
  std::string_view summary = {};
  bool takes_patterns = false;  ///< names values, which patterns may stand for (patterns.h):
  std::optional<ir::Op> pattern_of = {};  ///< those of that op, or any
};

using Argument = std::variant<std::string, std::vector<std::string>, std::int64_t>;

/// One step of a schedule: a transformation and its arguments, complete and of the schema's kinds.
struct Step {
  std::string transformation;
  std::map<std::string, Argument, std::less<>> arguments;
  std::string why = {};  ///< for people; empty: nobody said

  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] const std::vector<std::string>& list(std::string_view name) const;
  [[nodiscard]] std::int64_t integer(std::string_view name) const;
  bool operator==(const Step&) const = default;
};

struct Transformation {
  std::string_view name;
  std::string_view summary;
  std::span<const Parameter> parameters;
  /// The program after the step, which is complete. Throws ScheduleError or ProgramError when it is
  /// not legal.
  ir::Graph (*apply)(const ir::Graph& graph, const Step& step);
  /// Legal steps that a tuner may try.
  std::vector<Step> (*candidates)(const ir::Graph& graph);
  /// The program after several steps that differ in one name, as a pattern makes them, by one
  /// rewrite. Throws where they are not legal so; one after another they may be. Null: it is always
  /// one after another.
  ir::Graph (*apply_all)(const ir::Graph& graph, std::span<const Step> steps) = nullptr;
};

/// All transformations, in table order.
[[nodiscard]] std::span<const Transformation* const> transformations();
/// Null when there is none of that name.
[[nodiscard]] const Transformation* find_transformation(std::string_view name);

/// The program after `step`. Throws ScheduleError or ProgramError with the reason when it is not
/// legal, also where it would break a kernel that an earlier step made.
[[nodiscard]] ir::Graph transform(const ir::Graph& graph, const Step& step);

/// Why `step` is not legal for `graph`; empty when it is.
[[nodiscard]] std::string legal(const ir::Graph& graph, const Step& step);
/// Whether it is, without the search for what would be: for those who try many steps.
[[nodiscard]] bool is_legal(const ir::Graph& graph, const Step& step);
/// The program after `step`; nothing when it is not legal.
[[nodiscard]] std::optional<ir::Graph> try_transform(const ir::Graph& graph, const Step& step);

/// The candidates of all transformations, in table order: steps that are legal, and what a tuner
/// may try next.
[[nodiscard]] std::vector<Step> candidate_steps(const ir::Graph& graph);

/// What `parameter` is where it is not given.
[[nodiscard]] Argument fallback_of(const Parameter& parameter);

/// Checks `step` against its transformation's schema and fills in the fallbacks. Throws
/// ScheduleError.
[[nodiscard]] Step complete(Step step);

/// "split op=avg dim=1": the arguments that differ from the fallbacks.
[[nodiscard]] std::string to_string(const Step& step);

/// The id of `name`. Throws ScheduleError naming the values that a step made of it, or the nearest
/// known value.
[[nodiscard]] ir::ValueId require_value(const ir::Graph& graph, std::string_view name);

/// "'avg' (all_reduce)"
[[nodiscard]] std::string quoted(const ir::Graph& graph, ir::ValueId id);

/// Throws ScheduleError where `id` is in a kernel already, with what to do about it.
void refuse_fused(const ir::Graph& graph, ir::ValueId id, std::string_view instead);

#define COCONET_TRANSFORMATION(name) extern const Transformation name##_transformation;
#include "sched/transforms.def"
#undef COCONET_TRANSFORMATION

}  // namespace coconet::sched
