// Putting names in the places of patterns.
#include "sched/patterns.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "ir/lists.h"

namespace coconet::sched {
namespace {

bool is_pattern(std::string_view text) {
  return text.find('*') != std::string_view::npos || text.find("[!") != std::string_view::npos;
}

/// How many characters of `pattern` from `at` on stand for one that may be `c`: "[!ab]", or that
/// one itself. 0: it stands for others.
std::size_t length_for(std::string_view pattern, std::size_t at, char c) {
  const std::size_t end = pattern.find(']', at);
  if (pattern.compare(at, 2, "[!") != 0 || end == std::string_view::npos)
    return pattern[at] == c ? 1 : 0;
  const bool is_out = pattern.find(c, at + 2) < end;
  return is_out ? 0 : end - at + 1;
}

/// States of a single element, or of one for each buffer, have no slices that a pattern could mean.
bool is_small_state(const ir::Node& node) {
  return node.op == ir::Op::state && std::ranges::all_of(node.shape, [](const Dim& dim) {
           return dim == Dim(1) || !ir::counted_by(dim).empty();
         });
}

/// Neither have those of which every rank has its own.
bool is_local_state(const ir::Node& node) {
  return node.op == ir::Op::state && std::ranges::any_of(node.layout, [](const Placement& one) {
           return one.kind == Placement::Kind::local;
         });
}

/// A kernel that computes whole tensors has no place for the update of such a state.
bool is_out_of_place(const ir::Graph& graph, const Step& step, const ir::Node& node) {
  return node.op == ir::Op::update && is_small_state(graph.at(node.operands.front())) &&
         step.transformation == "fuse" && step.text("kind") == "computation";
}

/// In the program's order. What is in a kernel already cannot be fused again, so that a pattern
/// stands for the rest.
std::vector<std::string> values_like(const ir::Graph& graph, const Step& step,
                                     const Parameter& parameter, const std::string& pattern) {
  std::vector<std::string> names;
  for (ir::ValueId id = 0; id < graph.size(); ++id) {
    const ir::Node& node = graph.at(id);
    if (step.transformation == "fuse" && graph.fusion_of(id) != nullptr) continue;
    const bool is_meant = !parameter.pattern_of || *parameter.pattern_of == node.op;
    const bool has_slices = !is_small_state(node) && !is_local_state(node);
    if (parameter.pattern_of == ir::Op::state && !has_slices) continue;
    if (is_out_of_place(graph, step, node)) continue;
    if (is_meant && is_like(node.name, pattern)) names.push_back(node.name);
  }
  // What is left beside others may be nothing.
  if (!names.empty() || pattern.starts_with("[!")) return names;
  throw ScheduleError(fmt::format(
      "{}: '{}' is like the name of no {}; * stands for any characters, and [!w] for one that is "
      "not w",
      step.transformation, pattern,
      parameter.pattern_of ? to_string(*parameter.pattern_of) : "value"));
}

std::vector<std::string> names_of(const ir::Graph& graph, const Step& step,
                                  const Parameter& parameter) {
  std::vector<std::string> names;
  const auto add = [&](const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  };
  for (const std::string& one : step.list(parameter.name)) {
    if (!is_pattern(one)) {
      names.push_back(one);
      continue;
    }
    for (const std::string& name : values_like(graph, step, parameter, one)) add(name);
  }
  return names;
}

}  // namespace

bool is_like(std::string_view name, std::string_view pattern) {
  // Where a star takes more characters, it is always the last one that must: patterns come from
  // files, and trying all stars would take exponential time.
  std::size_t at = 0, in_pattern = 0;
  std::size_t star = std::string_view::npos, after_star = 0;
  while (at < name.size()) {
    const bool more = in_pattern < pattern.size();
    const std::size_t length = more ? length_for(pattern, in_pattern, name[at]) : 0;
    if (more && pattern[in_pattern] == '*') {
      star = in_pattern++;
      after_star = at;
    } else if (length > 0) {
      in_pattern += length;
      ++at;
    } else if (star != std::string_view::npos) {
      in_pattern = star + 1;
      at = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in_pattern) == std::string_view::npos;
}

std::vector<Step> expand(const ir::Graph& graph, const Step& step) {
  std::vector<Step> steps = {step};
  for (const Parameter& parameter : find_transformation(step.transformation)->parameters) {
    if (!parameter.takes_patterns) continue;
    if (parameter.kind == Parameter::Kind::list) {
      const std::vector<std::string> names = names_of(graph, step, parameter);
      for (Step& one : steps) one.arguments[std::string(parameter.name)] = names;
    } else if (is_pattern(step.text(parameter.name))) {
      const auto names = values_like(graph, step, parameter, step.text(parameter.name));
      const Step pattern = steps.front();
      steps.clear();
      for (const std::string& name : names) {
        steps.push_back(pattern);
        steps.back().arguments[std::string(parameter.name)] = name;
      }
    }
  }
  return steps;
}

}  // namespace coconet::sched
