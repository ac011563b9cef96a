// The plans of candidates: which of them the machine has, and their kernels.
#include "jit/tune/candidates.h"

#include <fmt/format.h>

#include <algorithm>

#include "coconet/config.h"
#include "ir/access.h"
#include "ir/graph.h"
#include "jit/comm/access.h"
#include "jit/kernels/plan_kernels.h"
#include "jit/run/overlaps.h"
#include "sched/knobs.h"
#include "sched/tune/canonical.h"
#include "sched/tune/likely.h"

namespace coconet::jit {

Candidates::Candidates(const Program& program, const World& world, Tuned& tuned)
    : program_(program), world_(world), tuned_(tuned) {
  together(comm(), [&] {
    tuned_.space = sched::find_space(*ir::graph_of(program_));
    find_shipped();
  });
  choose_plans();
}

Comm& Candidates::comm() const {
  return comm_of(world_);
}

/// Those that are no candidates become some.
void Candidates::find_shipped() {
  std::vector<sched::Candidate>& all = tuned_.space.candidates;
  sched::Canonical canonical;
  std::vector<std::string> plans;
  for (const sched::Candidate& one : all) plans.push_back(canonical.key(one.plan));
  for (const sched::Steps& shipped : sched::shipped_schedules_of(program_)) {
    const Program scheduled = Schedule::parse(sched::to_json(shipped)).apply(program_).back();
    sched::Plan plan = sched::lower(*ir::graph_of(scheduled));
    const auto place =
        static_cast<std::size_t>(std::ranges::find(plans, canonical.key(plan)) - plans.begin());
    shipped_.insert(place);
    if (place < plans.size()) continue;
    plans.push_back(canonical.key(plan));
    all.push_back({shipped.steps, *ir::graph_of(scheduled), std::move(plan)});
  }
}

void Candidates::choose_plans() {
  for (std::size_t index = 0; index < tuned_.space.candidates.size(); ++index)
    chosen_.push_back(plan_of({index, {}}).value_or(sched::Plan()));
  sched::Canonical canonical;
  std::set<std::string> plans;
  for (std::size_t index = 0; index < chosen_.size(); ++index) {
    if (!runs_in_turn(index)) plans.insert(canonical.key(chosen_[index]));
  }
  for (std::size_t index = 0; index < chosen_.size(); ++index)
    is_another_.push_back(runs_in_turn(index) && plans.contains(canonical.key(chosen_[index])));
}

std::optional<sched::Plan> Candidates::plan_of(const Variant& variant) {
  try {
    const Program scheduled =
        sched::with_knobs(schedule_of(tuned_.space, variant, "candidate").apply(program_).back(),
                          comm().config().knobs);
    return choose_plan(comm(), platform_of(comm()), *ir::graph_of(scheduled), comm().config()).plan;
  } catch (const CommError&) {
    throw;
  } catch (const Error& error) {
    give_up(variant, error);
    return {};
  }
}

/// Whether the candidate overlaps steps that there is no room for: it runs without the overlap.
bool Candidates::runs_in_turn(std::size_t index) const {
  return chosen_[index].overlaps.size() < tuned_.space.candidates[index].plan.overlaps.size();
}

void Candidates::give_up(const Variant& variant, const Error& error) {
  given_up_.push_back(variant);
  tuned_.impossible.push_back(fmt::format("{}: {}", describe(tuned_.space, variant), error.what()));
}

bool Candidates::is_given_up(const Variant& variant) const {
  return std::ranges::find(given_up_, variant) != given_up_.end();
}

void Candidates::compile(const std::set<std::size_t>& indices) {
  std::vector<const sched::Plan*> plans;
  for (const std::size_t index : indices) {
    if (!is_given_up({index, {}})) plans.push_back(&chosen_[index]);
  }
  compile(plans);
}

void Candidates::compile(const std::vector<const sched::Plan*>& plans) {
  const Platform& platform = platform_of(comm());
  std::vector<KernelText> texts;
  for (const sched::Plan* plan : plans) {
    for (KernelText& text :
         kernel_texts(*plan, {platform.traits().immediate, platform.traits().ranks_per_launch}))
      texts.push_back(std::move(text));
  }
  std::set<std::string_view> different;
  for (const KernelText& text : texts) different.insert(text.source);
  tuned_.kernels += different.size();
  try {
    for (auto& kernel : obtain_kernels(comm(), platform, texts, comm().config()))
      kernels_.push_back(std::move(kernel));
  } catch (const CompileError&) {
  }
}

}  // namespace coconet::jit
