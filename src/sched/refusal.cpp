// Trying remedies; see refusal.h.
#include "sched/refusal.h"

#include <fmt/format.h>

#include <algorithm>

#include "sched/kernels.h"
#include "sched/patterns.h"

namespace coconet::sched {

namespace {

using ir::Graph;
using ir::ValueId;

constexpr std::size_t most_remedies = 2;  // a sentence is to be read

using Names = std::vector<std::string>;

bool holds(const Names& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// "'a' (add), 'b' (update)"
std::string listed(const Graph& graph, const std::set<ValueId>& ids, const Names& among) {
  Names words;
  for (const ValueId id : ids) {
    if (among.empty() || holds(among, graph.at(id).name)) words.push_back(quoted(graph, id));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

/// The fuse that `remedy` makes of `step`; nothing where it changes nothing.
std::optional<Step> changed(const Graph& graph, Step step, const Remedy& remedy) {
  const Step before = step;
  if (step.transformation != "fuse") return step;
  Names& ops = std::get<Names>(step.arguments["ops"]);
  const auto add = [&](ValueId id) {
    if (!holds(ops, graph.at(id).name)) ops.push_back(graph.at(id).name);
  };
  for (const ValueId id : remedy.with) add(id);
  for (const ir::Fusion& fusion : graph.fusions()) {
    if (fusion.name != remedy.merged) continue;
    for (const ValueId id : fusion.members) add(id);
  }
  std::erase_if(ops, [&](const std::string& name) {
    const ValueId id = graph.find(name);
    return id >= 0 && remedy.without.contains(id);
  });
  if (step == before && remedy.first.empty()) return std::nullopt;
  if (remedy.any_kind) step.arguments["kind"] = std::string();
  return step;
}

bool works(const Graph& graph, const Step& step, const Remedy& remedy) {
  const std::optional<Step> next = changed(graph, step, remedy);
  if (!next) return false;
  Graph now = graph;
  std::vector<ir::Fusion> kernels = graph.fusions();
  std::erase_if(kernels, [&](const ir::Fusion& one) { return one.name == remedy.merged; });
  now.set_fusions(std::move(kernels));
  for (const Step& one : remedy.first) {
    std::optional<Graph> after = try_transform(now, one);
    if (!after) return false;
    now = std::move(*after);
  }
  return !remedy.again || is_legal(now, *next);
}

/// Whether the steps differ in lists alone, of which the first that works is as good as others.
bool is_like(Step a, Step b) {
  for (Step* step : {&a, &b}) {
    std::erase_if(step->arguments,
                  [](const auto& one) { return std::holds_alternative<Names>(one.second); });
  }
  return a == b;
}

/// `remedy` in words, said of `step`.
std::string said(const Graph& graph, const Step& step, const Remedy& remedy) {
  Names parts;
  if (!remedy.first.empty()) {
    Names steps;
    for (const Step& one : remedy.first) steps.push_back("'" + to_string(one) + "'");
    parts.push_back(fmt::format("do {} first", fmt::join(steps, " and ")));
    if (!remedy.again) parts.emplace_back("take what that makes");
  }
  if (!remedy.merged.empty())
    parts.push_back("make one kernel of both, in place of '" + remedy.merged + "'");
  if (!remedy.with.empty()) parts.push_back("fuse " + listed(graph, remedy.with, {}) + " too");
  if (!remedy.without.empty())
    parts.push_back("leave out " + listed(graph, remedy.without, step.list("ops")));
  if (remedy.any_kind && !step.text("kind").empty()) {
    const Step next = *changed(graph, step, remedy);
    const std::string_view kind = to_string(kind_of(graph, next.list("ops")));
    if (kind != step.text("kind"))
      parts.push_back(fmt::format("make it a kernel of kind '{}'", kind));
  }
  return fmt::format("{}", fmt::join(parts, " and "));
}

}  // namespace

std::string advised(const Graph& graph, const Step& step, const Refusal& refusal) {
  Names words;
  std::vector<Step> said_first;
  for (const Remedy& remedy : refusal.remedies()) {
    if (words.size() == most_remedies) break;
    const bool is_alike =
        !remedy.first.empty() && std::ranges::any_of(said_first, [&](const Step& s) {
          return is_like(s, remedy.first.front());
        });
    if (is_alike || !works(graph, step, remedy)) continue;
    if (!remedy.first.empty()) said_first.push_back(remedy.first.front());
    std::string text = said(graph, step, remedy);
    if (!holds(words, text)) words.push_back(std::move(text));
  }
  if (words.empty()) return refusal.what();
  return fmt::format("{}; {}", refusal.rule(), fmt::join(words, ", or "));
}

}  // namespace coconet::sched
