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

void Executable::resize(const Sizes& sizes, const ParameterLists& lists) {
  const jit::Bound& bound = state().bound();
  const jit::RankPlan& before = bound.plan;
  Extents now;
  jit::together(bound.comm(), [&] {
    state().runner().require_at_rest();
    now = changed(*ir::graph_of(state().program), before, sizes, lists);
    const jit::RankPlan plan(jit::plan_of(bound.chosen), now.sizes, now.lists, before.rank());
    bound.tensors.require_shared_unchanged(plan);
    state().runner().finish();
  });
  const jit::Given given[] = {
      {"other sizes", jit::text_of(now.sizes), "sizes " + jit::text_of(now.sizes)},
      {"other lists of buffers", jit::text_of(now.lists), "lists of " + jit::text_of(now.lists)}};
  jit::require_agreement(bound.comm(), "all ranks must resize to the same", given);
  if (now.sizes == before.sizes() && now.lists == before.lists()) return;
  state().rebind(std::make_unique<jit::Bound>(bound, std::move(now.sizes), std::move(now.lists)));
}

void Executable::reset() {
  State& own = state();
  jit::together(own.comm(), [&] {
    own.runner().require_not_captured();
    own.runner().finish();
  });
  own.rebind(std::make_unique<jit::Bound>(own.bound(), jit::Bound::Anew()));
  jit::together(own.comm(), [&] {
    jit::Runner& runner = own.runner();
    runner.in_order([&] { own.tensors().zero_written(runner.queue()); });
    runner.finish();
  });
}

void Executable::State::rebind(std::unique_ptr<jit::Bound> bound) {
  auto runner = std::make_unique<jit::Runner>(*bound, runner_.get());
  runner_ = std::move(runner);  // which waits for the queues of the one before
  bound_ = std::move(bound);
}

}  // namespace coconet
