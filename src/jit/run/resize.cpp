// Gives a bound plan new extents, or resets it.
#include <fmt/format.h>

#include "coconet/error.h"
#include "ir/access.h"
#include "jit/run/agreement.h"
#include "jit/run/executable_state.h"

namespace coconet {
namespace {

/// `before` with the extents in `sizes`, of dimensions that tensors are scattered over in `lists`.
struct Extents {
  std::map<std::string, std::int64_t> sizes;
  ir::Lists lists;
};

Extents changed(const ir::Graph& graph, const jit::RankPlan& before, const Sizes& sizes,
                const ParameterLists& lists) {
  Extents now{before.sizes(), before.lists()};
  for (const auto& [name, extent] : sizes) {
    now.sizes[name] = extent;
    const auto list = now.lists.find(name);
    if (list == now.lists.end() || lists.contains(name)) continue;
    if (list->second.size() > 1) {
      throw ProgramError(fmt::format(
          "dimension '{0}' of program '{1}' is scattered over {2} buffers; give resize their "
          "lengths in lists, {{{{\"{0}\", {{{3}}}}}}}",
          name, graph.name, list->second.size(), fmt::join(list->second, ", ")));
    }
    now.lists.erase(list);
  }
  for (const std::string& dim : ir::listed_dims(graph))
    now.sizes.erase(ir::buffers_of(Dim(dim, 0)).name);
  for (const auto& [name, lengths] : lists) {
    now.lists[name] = lengths;
    if (!sizes.contains(name)) now.sizes.erase(name);
  }
  now.sizes = ir::resolve_sizes(graph, now.sizes, now.lists);
  now.lists = ir::resolve_lists(graph, now.sizes, now.lists);
  return now;
}

}  // namespace

void Executable::State::resize(const Sizes& sizes, const ParameterLists& lists) {
  const ir::Graph& graph = *ir::graph_of(program);
  const jit::RankPlan& before = bound_->plan;
  Extents now;
  jit::together(comm(), [&] {
    runner_->require_at_rest();
    now = changed(graph, before, sizes, lists);
    const jit::RankPlan plan(jit::plan_of(bound_->chosen), now.sizes, now.lists, before.rank());
    tensors().require_shared_unchanged(plan);
    runner_->finish();
  });
  const jit::Given given[] = {
      {"other sizes", jit::text_of(now.sizes), "sizes " + jit::text_of(now.sizes)},
      {"other lists of buffers", jit::text_of(now.lists), "lists of " + jit::text_of(now.lists)}};
  jit::require_agreement(comm(), "all ranks must resize to the same", given);
  if (now.sizes == before.sizes() && now.lists == before.lists()) return;
  rebind(std::make_unique<jit::Bound>(*bound_, std::move(now.sizes), std::move(now.lists)));
}

void Executable::State::reset() {
  jit::together(comm(), [&] {
    runner_->require_not_captured();
    runner_->finish();
  });
  rebind(std::make_unique<jit::Bound>(*bound_, jit::Bound::Anew()));
  jit::together(comm(), [&] {
    jit::Queue& queue = runner_->queue();
    runner_->in_order([&] { tensors().zero_written(queue); });
    runner_->finish();
  });
}

void Executable::State::rebind(std::unique_ptr<jit::Bound> bound) {
  auto runner = std::make_unique<jit::Runner>(*bound, runner_.get());
  runner_ = std::move(runner);  // which waits for the queues of the one before
  bound_ = std::move(bound);
}

}  // namespace coconet
