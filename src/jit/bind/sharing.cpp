// States that executables have in common: one memory, by whichever name plan it is used.
#include <fmt/format.h>

#include <algorithm>

#include "coconet/error.h"
#include "jit/bind/tensors.h"

namespace coconet::jit {
namespace {

using Role = sched::PlanBuffer::Role;

/// "'w', 'm'"; "none".
std::string states_of(const sched::Plan& plan) {
  std::vector<std::string> names;
  for (const auto& [name, id] : plan.named) {
    if (plan.buffers[id].role == Role::state) names.push_back("'" + name + "'");
  }
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

/// "f32 [100, 3], sliced(0)", and how many buffers that is where it is scattered.
std::string shape_of(const RankPlan& plan, sched::BufferId id) {
  const sched::PlanBuffer& buffer = plan.buffer(id);
  std::string text =
      fmt::format("{} [{}], {}", to_string(buffer.dtype), fmt::join(plan.buffer_extents(id), ", "),
                  ir::to_string(buffer.layout, plan.mesh()));
  if (buffer.scattered)
    text += fmt::format(", scattered over buffers of {}", fmt::join(plan.lengths(id), ", "));
  return text;
}

}  // namespace

std::vector<Tensors::Shared> Tensors::common_states(const Tensors& owner) const {
  const std::string &here = plan_.graph().name, &there = owner.plan_.graph().name;
  if (&comm_ != &owner.comm_) {
    throw BackendError(fmt::format(
        "'{}' cannot share the states of '{}', which was compiled for another world; compile both "
        "for one",
        here, there));
  }
  std::vector<Shared> states;
  for (const auto& [name, id] : plan_.plan().named) {
    const auto found = owner.plan_.plan().named.find(name);
    if (plan_.buffer(id).role != Role::state || found == owner.plan_.plan().named.end()) continue;
    const sched::BufferId theirs = found->second;
    if (owner.plan_.buffer(theirs).role != Role::state) continue;
    const std::string own_shape = shape_of(plan_, id), their_shape = shape_of(owner.plan_, theirs);
    if (own_shape != their_shape) {
      throw BackendError(fmt::format(
          "state '{}' cannot be shared: it is {} in '{}' and {} in '{}'; give both the same dtype, "
          "extents and layout, or one of the states another name",
          name, own_shape, here, their_shape, there));
    }
    const ir::Part &own_part = plan_.buffer_part(id), &their_part = owner.plan_.buffer_part(theirs);
    if (own_part.begin != their_part.begin || own_part.extent != their_part.extent) {
      throw BackendError(fmt::format(
          "state '{}' cannot be shared: rank {} has another part of it in '{}', on the mesh {}, "
          "than "
          "in '{}', on {}; slice it along the same ranks in both",
          name, comm_.rank(), here, plan_.mesh().str(), there, owner.plan_.mesh().str()));
    }
    const TensorMemory &mine = *tensors_[id].memory, &memory = *owner[theirs].memory;
    // The application's stay where they are, and are copied.
    const bool moves = mine.reached && !memory.is_reachable(mine.multicast) && !memory.foreign &&
                       !memory.given_out;
    states.push_back({id, theirs, moves});
  }
  if (states.empty()) {
    throw BackendError(fmt::format(
        "'{}' and '{}' have no state in common: the one has {}, the other {}; states are shared "
        "that both programs have under one name",
        here, there, states_of(plan_.plan()), states_of(owner.plan_.plan())));
  }
  return states;
}

void Tensors::share(Tensors& owner, std::span<const Shared> states, Queue& queue) {
  const auto remember = [](Tensors& of, sched::BufferId id) {
    if (std::ranges::find(of.shared_, id) == of.shared_.end()) of.shared_.push_back(id);
  };
  std::vector<std::shared_ptr<Memory>> copied_from;  // until the copies are made
  for (const auto& [here, there, moves] : states) {
    Tensor &mine = tensors_[here], &theirs = owner.tensors_[there];
    TensorMemory& memory = *theirs.memory;
    if (moves) {
      owner.follow(theirs);
      if (!mine.memory->bound) use_own(mine);
      for (std::size_t i = 0; i < mine.pieces.size(); ++i) {
        if (theirs.pieces[i].home == nullptr) continue;  // nothing was written to it yet
        queue.copy(mine.pieces[i].home, theirs.pieces[i].home,
                   mine.pieces[i].count * owner.plan_.element_size(there));
      }
      copied_from.push_back(memory.alone);
      memory.places = mine.memory->places;
      memory.shared = mine.memory->shared;
      memory.alone = mine.memory->alone;
      memory.offset = mine.memory->offset;
      memory.bound |= mine.memory->bound;
      memory.foreign = mine.memory->foreign;
      memory.given_out = mine.memory->given_out;
      ++memory.version;
    } else if (mine.memory->reached && !memory.shared) {  // where to copy to
      memory.shared = mine.memory->shared;
      memory.offset = mine.memory->offset;
    }
    memory.reached |= mine.memory->reached;
    memory.multicast |= mine.memory->multicast;
    remember(*this, here);
    remember(owner, there);
    mine.memory = theirs.memory;
    mine.version = ~std::uint64_t{0};  // of no memory
    follow(mine);
    owner.follow(theirs);
  }
  queue.finish();
}

void Tensors::require_shared_unchanged(const RankPlan& plan) const {
  for (const sched::BufferId id : shared_) {
    if (tensors_[id].memory.use_count() == 1 || has_extents_of(id, plan)) continue;
    throw BackendError(fmt::format(
        "state '{}' is shared with another executable and would have other extents, {} instead of "
        "{}; resize dimensions that no shared state has",
        plan.buffer(id).name, shape_of(plan, id), shape_of(plan_, id)));
  }
}

}  // namespace coconet::jit
